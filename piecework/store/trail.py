"""The stored error of one claim; a dead letter contains the errors of all claims."""

from __future__ import annotations

from piecework import keys
from piecework.claim import Claim
from piecework.errors import ErrorEnvelope
from piecework.model import iso
from piecework.store.expiry import expires_at
from piecework.store.table import Action, Table


def error_put(
    table: Table, claim: Claim, failure: ErrorEnvelope, now: float, keep_days: float
) -> Action:
    """Return the write of the error that ended a claim, for the same transaction."""
    return table.action(
        "Put",
        claim.ref.pk,
        keys.error_sk(claim.ref.chunk, claim.gen, claim.fence),
        item={
            "at": iso(now),
            "worker": claim.worker,
            "gen": claim.gen,
            "attempt": claim.attempt,
            "error": failure.model_dump_json(exclude_none=True),
            "expires_at": expires_at(now, keep_days),
        },
    )
