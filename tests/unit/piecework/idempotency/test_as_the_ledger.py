"""The client-side store for tools without keys: the ledger's answers, and ours alone.

Inside a pipeline the ledger is that store, and a dependency's `effect` the choice.
Outside, the caller passes the store; `in_doubt` is the choice. Both say the same.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework import Dependency, Effect, RetryPolicy
from piecework.idempotency.record import State
from piecework.standalone import MemoryIdempotency
from piecework.store import effects
from tests.unit.piecework.fakes import caller
from tests.unit.piecework.idempotency.guarding import Clock, guard
from tests.unit.piecework.provider import Provider, RefusedError, call
from tests.unit.virtual import run_virtually

ANSWERED: list[BaseException] = []
REFUSED: list[BaseException] = [RefusedError(422)]
LOST: list[BaseException] = [ConnectionError("lost")]
UNSENT: list[BaseException] = [ConnectionRefusedError("no server")]
CUT_OFF: list[BaseException] = [asyncio.CancelledError()]

#: The kind, how the first call ends, what the second comes to, and the calls made.
EXPECTED = [
    (Effect.PROVIDER_IDEMPOTENT, ANSWERED, "answer", 1),
    (Effect.PROVIDER_IDEMPOTENT, REFUSED, "answer", 2),
    (Effect.PROVIDER_IDEMPOTENT, LOST, "answer", 2),
    (Effect.PROVIDER_IDEMPOTENT, CUT_OFF, "answer", 2),
    (Effect.NON_IDEMPOTENT, ANSWERED, "answer", 1),
    (Effect.NON_IDEMPOTENT, REFUSED, "answer", 2),
    (Effect.NON_IDEMPOTENT, UNSENT, "answer", 2),
    (Effect.NON_IDEMPOTENT, LOST, "runtime.effect.unknown", 1),
    (Effect.NON_IDEMPOTENT, CUT_OFF, "runtime.effect.unknown", 1),
]
#: The states of the ledger, and of a record.
STATES = {
    effects.INTENT: State.BEGUN,
    effects.DONE: State.DONE,
    effects.REFUSED: State.RELEASED,
    effects.UNKNOWN: State.UNKNOWN,
}


async def outcome(work: Any) -> Any:
    """Return what a call answers, or the code of its error."""
    try:
        return await work
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
        return getattr(error, "code", None)


@pytest.mark.parametrize(("effect", "first", "second", "calls"), EXPECTED)
def test_the_ledger_says_so_in_a_pipeline(
    effect: Effect, first: list[BaseException], second: str, calls: int
) -> None:
    async def main() -> None:
        provider, one = Provider(*first), caller()
        once = RetryPolicy(attempts=1)
        tool = Dependency("tool", effect=effect, retry=once, breaker=None)
        await outcome(call(one, tool, provider, "a"))
        assert second == await outcome(call(one, tool, provider, "a"))
        assert len(provider.keys) == calls

    run_virtually(main())


@pytest.mark.parametrize(("effect", "first", "second", "calls"), EXPECTED)
def test_a_store_says_so_without_one(
    effect: Effect, first: list[BaseException], second: str, calls: int
) -> None:
    async def main() -> None:
        provider, clock = Provider(*first), Clock()
        in_doubt = "raise" if effect is Effect.NON_IDEMPOTENT else "repeat"
        store = MemoryIdempotency(clock=clock)
        ask = guard(provider.ask, store, operation="tool", in_doubt=in_doubt)
        await outcome(ask("a"))
        clock.now += 60
        assert second == await outcome(ask("a"))
        assert len(provider.keys) == calls

    run_virtually(main())


def test_each_state_of_a_record_is_one_of_the_ledgers_but_a_remembered_refusal() -> (
    None
):
    assert set(State) - set(STATES.values()) == {State.REFUSED}
