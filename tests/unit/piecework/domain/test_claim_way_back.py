"""A compensating chunk is not cancelled by a worker that finds it unclaimed."""

from __future__ import annotations

import pytest

from piecework.domain.claim import (
    AttemptsExhausted,
    CancelPending,
    FenceMismatch,
    Refusal,
    explain_refusal,
)
from piecework.domain.refs import ChunkRef

NOW = 1_700_000_000.0


def judged(**facts: object) -> Refusal | FenceMismatch:
    item = {"status": "WAITING", "gen": 1, "attempts": 3, **facts}
    ref = ChunkRef("acme", "job", 3)
    return explain_refusal(ref, item, gen=1, now=NOW, skew=5.0, max_attempts=3)


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [({}, CancelPending), ({"direction": "compensating"}, AttemptsExhausted)],
)
def test_a_cancel_ends_only_a_chunk_that_goes_forward(
    facts: dict[str, str], refusal: type[Refusal]
) -> None:
    assert isinstance(judged(cancel_requested_at=True, **facts), refusal)
