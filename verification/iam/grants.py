"""Who asks AWS for what, on which resource, and what for: the code's own call table.

Tests hold that every call of a client that the code makes has a row, that the code a
row names is there, and that the roles of the template grant this and nothing else.
"""

from __future__ import annotations

from verification.iam.row import Row
from verification.iam.rows_of_people import DEPLOY, OPERATOR_READ, OPERATOR_WRITE
from verification.iam.rows_of_processes import (
    EXECUTION,
    ORCHESTRATOR,
    RECONCILER,
    WORKER,
)

#: Of every role that has no part in deploying.
GRANTS: dict[str, tuple[Row, ...]] = {
    "orchestrator": ORCHESTRATOR,
    "worker": WORKER,
    "reconciler": RECONCILER,
    "operator-read": OPERATOR_READ,
    "operator-write": OPERATOR_WRITE,
    "execution": EXECUTION,
}
#: The same, with what the deploy command asks itself.
OURS = {**GRANTS, "deploy": DEPLOY}
