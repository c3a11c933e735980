from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from piecework import Dependency, Effect, PermanentError, TransientError
from piecework.calls.in_flight import InFlight, may_still_execute
from piecework.calls.invoke import as_failure
from piecework.errors.classify import classify
from piecework.errors.codes import ErrorClass
from piecework.resilience.retry import Failed
from tests.unit.piecework.fakes import envelope
from tests.unit.virtual import run_virtually

BANK = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT, timeout=20.0)
MODEL = Dependency("model", timeout=20.0)


def end(error: BaseException) -> Failed | None:
    """Return the end of a request that raised an error."""
    return Failed(classify(error), error) if isinstance(error, Exception) else None


class AnswerError(Exception):
    """An error with an HTTP answer."""

    def __init__(self, status: int) -> None:
        self.response = SimpleNamespace(status_code=status, headers={})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (asyncio.CancelledError(), True),
        (as_failure(asyncio.CancelledError()), True),
        (AnswerError(504), True),
        (AnswerError(409), True),
        (AnswerError(503), False),
        (AnswerError(422), False),
        (PermanentError("declined", code="tool.card.declined"), False),
        (TransientError("busy", code="tool.line.busy"), False),
        (ValueError("a mistake of ours"), False),
    ],
)
def test_what_was_not_answered_may_still_be_carried_out(
    error: BaseException, *, expected: bool
) -> None:
    assert expected == may_still_execute(end(error))


def test_a_request_may_still_execute_if_its_dependency_classifies_it_as_transient() -> (
    None
):
    lost = envelope(ErrorClass.TRANSIENT, code="acme.line.lost")
    assert may_still_execute(Failed(lost, ValueError("line lost")))


def waited(prepare: object) -> tuple[float, int]:
    """Return for how long it waits, and how often it says that it is alive."""
    alive = []

    async def wait() -> float:
        loop = asyncio.get_running_loop()
        in_flight = InFlight(asyncio.sleep, lambda: alive.append(1), loop.time())
        prepare(in_flight, loop.time())  # type: ignore[operator]
        begun = loop.time()
        await in_flight.wait()
        return loop.time() - begun

    return run_virtually(wait()), len(alive)


def test_nothing_on_its_way_is_not_waited_for() -> None:
    assert (0.0, 0) == waited(lambda *_: None)


def test_a_request_is_waited_for_as_long_as_it_may_take() -> None:
    def sent(in_flight: InFlight, now: float) -> None:
        in_flight.note_failure(BANK, now - 5.0, end(ConnectionResetError()))

    assert (15.0, 1) == waited(sent)


def test_an_answered_request_is_not_waited_for() -> None:
    def answered(in_flight: InFlight, now: float) -> None:
        in_flight.note_failure(BANK, now, end(AnswerError(503)))

    assert (0.0, 0) == waited(answered)


def test_a_pure_call_leaves_nothing_to_wait_for() -> None:
    def sent(in_flight: InFlight, now: float) -> None:
        in_flight.note_failure(MODEL, now, end(ConnectionResetError()))

    assert (0.0, 0) == waited(sent)


def test_what_an_earlier_claim_sent_is_waited_for_and_counts_as_work() -> None:
    def taken_over(in_flight: InFlight, _: float) -> None:
        in_flight.note_earlier_claim(70.0)

    assert (70.0, 3) == waited(taken_over)
