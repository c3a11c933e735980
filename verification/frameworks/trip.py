"""What the agents of all frameworks share: the row, the airline and the main program.

python -m verification.frameworks.pydantic_ai_agent STATE
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

import piecework
from piecework import Dependency, Effect

#: The airline honours the key.
AIRLINE = Dependency("airline", effect=Effect.PROVIDER_IDEMPOTENT)


class Trip(BaseModel):
    """Where to go."""

    to: str


def main(pipeline: Callable[..., Any]) -> None:
    """Run the agent over one row; the state file is the only argument."""
    os.environ["AGENT_RUN"] = str(os.getpid())
    rows = [Trip(to="Rome")]
    ran = piecework.run(pipeline, rows, state=sys.argv[1], progress=False).wait()
    print(ran, *ran.values, sep="\n")  # noqa: T201 -- the test reads the last line
