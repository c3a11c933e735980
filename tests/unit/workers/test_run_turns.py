"""The direction of a chunk's run: forward, compensating, or interrupted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Self

import pytest

from piecework.calls.in_flight import EffectDrain
from piecework.domain.claim import MAX_RECOVERIES
from piecework.domain.outcome import DeadLettered, Released, Succeeded
from piecework.domain.protocols import ClaimLostError
from piecework.domain.records import UNREADABLE
from piecework.errors import PermanentError, StoreError
from piecework_worker import run as undertake
from tests.unit.piecework.fakes import Log
from tests.unit.workers.test_run import DID, ran, task

SUCCEEDED = Succeeded("null")


@pytest.fixture(autouse=True)
def nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(*_: Any) -> None: ...

    monkeypatch.setattr(undertake, "load_state", load)
    DID.clear()


def attempt(**facts: Any) -> Any:
    """Return an attempt on a chunk, after any number of recoveries."""
    one = task(**facts)
    one.claim = replace(one.claim, is_recovery=False)
    return one


@pytest.mark.parametrize("recoveries", [0, MAX_RECOVERIES + 1])
async def test_an_attempt_goes_on(recoveries: int) -> None:
    assert isinstance(await ran(attempt(recoveries=recoveries)), Succeeded)
    assert DID == ["second"]


async def test_what_can_never_be_read_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def load(*_: Any) -> None:
        message = "not what was submitted"
        raise PermanentError(message, code="runtime.payload.corrupt")

    monkeypatch.setattr(undertake, "load_state", load)
    one = task()
    one.ctx.attempt = 1
    assert isinstance(await ran(one), DeadLettered)


@pytest.mark.parametrize("error", [KeyError("body"), ValueError("no"), TypeError()])
async def test_a_malformed_row_is_reported_as_such(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def load(*_: Any) -> None:
        raise error

    monkeypatch.setattr(undertake, "load_state", load)
    outcome = await ran(task())
    assert isinstance(outcome, DeadLettered)
    assert UNREADABLE == outcome.failure.code
    assert type(error).__name__ in outcome.failure.message


def bench() -> Any:
    caller = SimpleNamespace(effect_drain=EffectDrain())
    ctx = SimpleNamespace(caller=caller, log=Log())
    return SimpleNamespace(ctx=ctx, checkpoints=SimpleNamespace(cancel=None))


class Lease:
    """A lease that holds, or interrupts the work."""

    cancel = None

    def __init__(self, *, cuts_off: bool = False) -> None:
        self.cuts_off = cuts_off

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> bool:
        return self.cuts_off


@pytest.mark.parametrize(
    ("came_to", "cuts_off", "outcome"),
    [
        (SUCCEEDED, False, SUCCEEDED),
        (TimeoutError(), True, "interrupted"),
        (StoreError("gone", code="aws.service.throttled"), False, Released()),
    ],
)
async def test_an_interrupt_is_an_outcome_too(
    monkeypatch: pytest.MonkeyPatch, came_to: Any, cuts_off: Any, outcome: Any
) -> None:
    async def run(*_: Any) -> Any:
        if isinstance(came_to, Exception):
            raise came_to
        return came_to

    monkeypatch.setattr(undertake, "build_run", lambda *_: bench())
    monkeypatch.setattr(undertake, "run_from_checkpoint", run)
    monkeypatch.setattr(undertake, "outcome_of_interrupt", lambda *_: "interrupted")
    lease: Any = Lease(cuts_off=cuts_off)
    nothing: Any = None
    log: Any = Log()
    report = await undertake.run_claim(lease, nothing, nothing, nothing, log)
    assert outcome == report.outcome


async def test_a_lost_claim_journals_no_more_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[bool] = []

    async def close(*, keep: bool) -> None:
        kept.append(keep)

    async def run(*_: Any) -> Any:
        raise ClaimLostError

    one = bench()
    one.journal = SimpleNamespace(close=close)
    monkeypatch.setattr(undertake, "build_run", lambda *_: one)
    monkeypatch.setattr(undertake, "run_from_checkpoint", run)
    lease: Any = Lease(cuts_off=False)
    nothing: Any = None
    log: Any = Log()
    with pytest.raises(ClaimLostError):
        await undertake.run_claim(lease, nothing, nothing, nothing, log)
    assert kept == [False]
