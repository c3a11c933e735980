from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework.calls import CallScope, call_key, provider_key
from piecework.dependency import Dependency, Effect
from piecework.errors import PermanentError, PolicyError, TransientError
from piecework.ports import ClaimLostError
from piecework.retry import RetryBudget, RetryPolicy
from tests.unit.piecework.fakes import SCOPE, Diary, Log, caller
from tests.unit.virtual import run_virtually

PURE = Dependency("model", retry=RetryPolicy(attempts=3, base=1.0))
KEYED = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)
ONCE = Dependency("fax", effect=Effect.NON_IDEMPOTENT)


class RefusedError(Exception):
    """As aiohttp raises it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status}")
        self.status = status
        self.headers: dict[str, str] = {}


class Provider:
    """Answers, or fails with the given errors first; keeps what it was asked."""

    def __init__(self, *errors: BaseException, answer: Any = "answer") -> None:
        self.errors = list(errors)
        self.answer = answer
        self.keys: list[str] = []
        self.args: list[tuple[Any, ...]] = []

    async def ask(self, *args: Any, idempotency_key: str, **kwargs: Any) -> Any:
        self.keys.append(idempotency_key)
        self.args.append((*args, kwargs))
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)
        return self.answer


async def call(
    made_by: Any,
    dependency: Dependency,
    provider: Provider,
    *args: Any,
    scope: CallScope = SCOPE,
) -> Any:
    return await made_by.call(scope, dependency, provider.ask, args, {})


# ── pure ─────────────────────────────────────────────────────────────────────


async def test_a_call_is_made_with_its_arguments_and_a_key() -> None:
    provider, one = Provider(), caller()
    answer = await one.call(SCOPE, PURE, provider.ask, ["a"], {"b": 1})
    assert answer == "answer"
    assert provider.args == [("a", {"b": 1})]
    key = call_key(SCOPE, PURE, provider.ask, ["a"], {"b": 1})
    assert provider.keys == [provider_key(key, 1)]


async def test_a_call_that_was_made_is_remembered() -> None:
    provider, one = Provider(), caller()
    await call(one, PURE, provider, "a")
    provider.answer = "another"
    assert await call(one, PURE, provider, "a") == "answer"
    assert len(provider.keys) == 1
    assert (one.counts.made, one.counts.replayed) == (1, 1)


async def test_a_later_claim_is_not_paid_for_what_an_earlier_one_was() -> None:
    diary, provider = Diary(), Provider()
    await call(caller(diary), PURE, provider, "a")
    later = caller(diary, epoch=2)
    assert await call(later, PURE, provider, "a") == "answer"
    assert len(provider.keys) == 1
    assert (later.counts.made, later.counts.replayed) == (0, 1)


async def test_other_arguments_are_another_call() -> None:
    provider, one = Provider(), caller()
    await call(one, PURE, provider, "a")
    await call(one, PURE, provider, "b")
    assert len(set(provider.keys)) == 2


@pytest.mark.parametrize("part", ["tenant", "job", "chunk", "stage"])
def test_another_scope_is_another_call(part: str) -> None:
    facts = {"tenant": "acme", "job": "job", "chunk": 7, "stage": "analyse"}
    other = CallScope(**(facts | {part: 8 if part == "chunk" else "other"}))  # type: ignore[arg-type]
    provider = Provider()
    assert call_key(SCOPE, PURE, provider.ask, [], {}) != call_key(
        other, PURE, provider.ask, [], {}
    )


def test_another_dependency_or_function_is_another_call() -> None:
    keys = {
        call_key(SCOPE, dependency, function, [], {})
        for dependency in (PURE, KEYED)
        for function in (Provider().ask, call)
    }
    assert len(keys) == 4


def test_a_keyword_is_not_a_positional_argument() -> None:
    provider = Provider()
    one = call_key(SCOPE, PURE, provider.ask, [["a", 1]], {})
    assert one != call_key(SCOPE, PURE, provider.ask, [], {"a": 1})


async def test_a_failure_is_not_remembered() -> None:
    provider, one = Provider(PermanentError("no")), caller()
    with pytest.raises(PermanentError):
        await call(one, PURE, provider)
    assert await call(one, PURE, provider) == "answer"


async def test_a_transient_failure_is_tried_again_with_the_same_key() -> None:
    provider, log = Provider(TransientError("a"), TransientError("b")), Log()
    one = caller(log=log)
    assert await call(one, PURE, provider) == "answer"
    assert len(provider.keys) == 3
    assert len(set(provider.keys)) == 1
    assert (one.counts.made, one.counts.retried) == (1, 2)
    assert log.names().count("call.attempt") == 2


async def test_the_last_failure_is_raised_as_it_is() -> None:
    errors = [TransientError(str(n)) for n in range(3)]
    with pytest.raises(TransientError) as caught:
        await call(caller(), PURE, Provider(*errors))
    assert caught.value is errors[2]


async def test_retries_end_with_the_budget_of_the_run() -> None:
    from tests.unit.piecework.fakes import Highest

    provider = Provider(TransientError("a"))
    one = caller(budget=RetryBudget(0.5), rng=Highest())
    with pytest.raises(TransientError):
        await call(one, PURE, provider)
    assert len(provider.keys) == 1


def test_an_attempt_that_hangs_is_cut_off_and_tried_again() -> None:
    async def main() -> None:
        hangs = [True, False]

        async def ask(*, idempotency_key: str) -> str:
            del idempotency_key
            if hangs.pop(0):
                await asyncio.Event().wait()
            return "answer"

        began = asyncio.get_running_loop().time()
        one = caller()
        slow = Dependency("model", timeout=7.0, retry=RetryPolicy(attempts=2))
        assert await one.call(SCOPE, slow, ask, [], {}) == "answer"
        assert asyncio.get_running_loop().time() - began == pytest.approx(7.0)
        assert one.counts.retried == 1

    run_virtually(main())


async def test_the_wait_for_a_slot_is_not_part_of_the_attempts_time() -> None:
    one = caller(slots=asyncio.Semaphore(1))
    most = 0
    flying = 0

    async def ask(_: int, *, idempotency_key: str) -> None:
        nonlocal most, flying
        del idempotency_key
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0)
        flying -= 1

    calls = [one.call(SCOPE, PURE, ask, [n], {}) for n in range(5)]
    await asyncio.gather(*calls)
    assert most == 1


async def test_every_end_of_a_call_is_a_sign_of_life() -> None:
    signs: list[int] = []
    one = caller(progress=lambda: signs.append(1))
    await call(one, PURE, Provider(TransientError("a")))
    assert len(signs) == 2
    with pytest.raises(PermanentError):
        await call(one, PURE, Provider(PermanentError("no")), "other")
    assert len(signs) == 3


# ── equal calls under way ────────────────────────────────────────────────────


async def test_equal_calls_under_way_are_one_call() -> None:
    provider, one = Provider(answer=["a"]), caller()
    answers = await asyncio.gather(*(call(one, PURE, provider) for _ in range(5)))
    assert answers == [["a"]] * 5
    assert len(provider.keys) == 1
    assert one.counts.made == 1


async def test_those_who_share_a_call_do_not_share_the_object() -> None:
    provider, one = Provider(answer=["a"]), caller()
    mine, yours = await asyncio.gather(
        call(one, PURE, provider), call(one, PURE, provider)
    )
    mine.append("mine")
    assert yours == ["a"]


async def test_those_who_share_a_call_share_its_failure() -> None:
    provider, one = Provider(PermanentError("no")), caller()
    ends = await asyncio.gather(
        *(call(one, PURE, provider) for _ in range(3)), return_exceptions=True
    )
    assert [type(end) for end in ends] == [PermanentError] * 3
    assert len(provider.keys) == 1


async def test_a_failure_that_nobody_shares_leaves_no_trace() -> None:
    one = caller()
    with pytest.raises(PermanentError):
        await call(one, PURE, Provider(PermanentError("no")))
    assert one._flying == {}


class Gate(Provider):
    """Answers when it is let."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts)
        self.open = asyncio.Event()

    async def ask(self, *args: Any, idempotency_key: str, **kwargs: Any) -> Any:
        self.keys.append(idempotency_key)
        await self.open.wait()
        return self.answer


async def flown(one: Any, dependency: Dependency, gate: Gate, count: int) -> Any:
    tasks = [asyncio.create_task(call(one, dependency, gate)) for _ in range(count)]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_a_cancelled_first_caller_takes_nobody_with_it() -> None:
    gate, one = Gate(), caller()
    first, *others = await flown(one, PURE, gate, 4)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.open.set()
    assert await asyncio.gather(*others) == ["answer"] * 3
    assert len(gate.keys) == 2
    assert len(set(gate.keys)) == 1
    assert one._flying == {}


async def test_a_cancelled_sharer_leaves_the_call_alone() -> None:
    gate, one = Gate(), caller()
    first, second, third = await flown(one, PURE, gate, 3)
    second.cancel()
    gate.open.set()
    assert await asyncio.gather(first, third) == ["answer"] * 2
    assert second.cancelled()
    assert len(gate.keys) == 1


async def test_an_effect_whose_caller_was_cancelled_is_in_doubt_for_the_next() -> None:
    gate, one = Gate(), caller()
    first, second = await flown(one, ONCE, gate, 2)
    first.cancel()
    with pytest.raises(PermanentError) as caught:
        await second
    assert caught.value.code == "runtime.effect.unknown"
    assert len(gate.keys) == 1


async def test_a_lost_claim_reaches_everybody() -> None:
    provider, one = Provider(ClaimLostError()), caller()
    ends = await asyncio.gather(
        *(call(one, PURE, provider) for _ in range(2)), return_exceptions=True
    )
    assert [type(end) for end in ends] == [ClaimLostError] * 2


# ── effects ──────────────────────────────────────────────────────────────────


async def test_an_effect_is_written_ahead_and_done_after() -> None:
    diary = Diary()
    provider = Provider()

    async def ask(*, idempotency_key: str) -> str:
        diary.said.append("call")
        return str(await provider.ask(idempotency_key=idempotency_key))

    one = caller(diary)
    assert await one.call(SCOPE, KEYED, ask, [], {}) == "answer"
    assert diary.said == ["begin", "call", "finish"]
    assert one.counts.stages_with_effects == {"analyse"}


async def test_an_effect_that_was_done_is_not_done_again() -> None:
    diary, provider = Diary(), Provider()
    await call(caller(diary), ONCE, provider)
    later = caller(diary, epoch=2)
    assert await call(later, ONCE, provider) == "answer"
    assert len(provider.keys) == 1
    assert later.counts.replayed == 1
    assert later.counts.stages_with_effects == {"analyse"}


async def test_a_pure_call_leaves_nothing_behind() -> None:
    one = caller()
    await call(one, PURE, Provider())
    assert one.counts.stages_with_effects == set()


async def begun(diary: Diary, dependency: Dependency) -> Provider:
    """Begin an effect and be killed before its end is written."""
    provider = Provider(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await call(caller(diary), dependency, provider)
    return provider


async def test_an_idempotent_provider_is_asked_again_with_the_same_key() -> None:
    diary = Diary()
    provider = await begun(diary, KEYED)
    later = caller(diary, epoch=2)
    assert await call(later, KEYED, provider) == "answer"
    assert len(provider.keys) == 2
    assert len(set(provider.keys)) == 1


async def test_what_can_be_neither_repeated_nor_looked_up_is_left_to_a_person() -> None:
    diary = Diary()
    provider = await begun(diary, ONCE)
    with pytest.raises(PermanentError) as caught:
        await call(caller(diary), ONCE, provider)
    assert caught.value.code == "runtime.effect.unknown"
    assert len(provider.keys) == 1


def looked_up(answer: Any) -> tuple[Dependency, list[str]]:
    asked: list[str] = []

    async def find(*args: Any, idempotency_key: str) -> Any:
        asked.append(idempotency_key)
        return answer

    return Dependency("bank", effect=Effect.LOOKUP, lookup=find), asked


async def test_an_effect_is_not_looked_up_before_its_first_try() -> None:
    bank, asked = looked_up("found")
    assert await call(caller(), bank, Provider()) == "answer"
    assert asked == []


async def test_an_effect_in_doubt_that_is_found_is_not_done_again() -> None:
    diary = Diary()
    bank, asked = looked_up("found")
    provider = await begun(diary, bank)
    assert await call(caller(diary), bank, provider) == "found"
    assert asked == provider.keys
    assert diary.said[-1] == "finish"
    assert await call(caller(diary), bank, provider) == "found"


async def test_an_effect_in_doubt_that_is_not_found_is_done() -> None:
    diary = Diary()
    bank, asked = looked_up(None)
    provider = await begun(diary, bank)
    assert await call(caller(diary), bank, provider) == "answer"
    assert len(asked) == 1
    assert provider.keys == [asked[0]] * 2


def test_a_lookup_that_hangs_is_cut_off() -> None:
    async def main() -> None:
        async def find(*_: Any, idempotency_key: str) -> None:
            del idempotency_key
            await asyncio.Event().wait()

        bank = Dependency("bank", effect=Effect.LOOKUP, lookup=find, timeout=3.0)
        diary = Diary()
        provider = await begun(diary, bank)
        with pytest.raises(TimeoutError):
            await call(caller(diary), bank, provider)

    run_virtually(main())


async def test_a_plain_refusal_is_recorded() -> None:
    diary = Diary()
    with pytest.raises(RefusedError):
        await call(caller(diary), KEYED, Provider(RefusedError(422)))
    assert diary.said == ["begin", "refuse"]
    assert diary.effects == {}


@pytest.mark.parametrize("error", [RefusedError(503), RefusedError(409), OSError()])
async def test_a_failure_that_says_nothing_leaves_the_intent(error: Exception) -> None:
    diary = Diary()
    bank = Dependency(
        "bank", effect=Effect.PROVIDER_IDEMPOTENT, retry=RetryPolicy(attempts=1)
    )
    with pytest.raises(type(error)):
        await call(caller(diary), bank, Provider(error))
    assert diary.said == ["begin"]
    assert list(diary.effects.values()) == [None]


async def test_a_refusal_after_a_time_out_says_nothing_of_what_the_time_out_hid() -> (
    None
):
    diary = Diary()
    bank, asked = looked_up("found")
    provider = Provider(TimeoutError(), RefusedError(400))
    with pytest.raises(RefusedError):
        await call(caller(diary), bank, provider)
    assert "refuse" not in diary.said
    assert await call(caller(diary), bank, provider) == "found"
    assert len(asked) == 1


async def test_a_refusal_of_an_effect_in_doubt_does_not_take_the_doubt_away() -> None:
    diary = Diary()
    provider = await begun(diary, KEYED)
    provider.errors = [RefusedError(400)]
    with pytest.raises(RefusedError):
        await call(caller(diary), KEYED, provider)
    assert "refuse" not in diary.said


async def test_refusals_all_the_way_are_a_refusal() -> None:
    diary = Diary()
    provider = Provider(RefusedError(429), RefusedError(400))
    with pytest.raises(RefusedError):
        await call(caller(diary), KEYED, provider)
    assert len(provider.keys) == 2
    assert diary.said == ["begin", "refuse"]


async def test_what_cannot_be_repeated_is_tried_once_and_then_in_doubt() -> None:
    diary, provider = Diary(), Provider(TransientError("a"), TransientError("b"))
    with pytest.raises(PermanentError) as caught:
        await call(caller(diary), ONCE, provider)
    assert caught.value.code == "runtime.effect.unknown"
    assert isinstance(caught.value.__cause__, TransientError)
    assert len(provider.keys) == 1
    assert diary.said == ["begin", "doubt"]


async def test_what_cannot_be_repeated_and_was_refused_did_not_happen() -> None:
    diary = Diary()
    with pytest.raises(RefusedError):
        await call(caller(diary), ONCE, Provider(RefusedError(403)))
    assert diary.said == ["begin", "refuse"]


async def test_an_error_of_our_own_code_says_nothing_of_the_provider() -> None:
    diary = Diary()
    with pytest.raises(PolicyError):
        await call(caller(diary), KEYED, Provider(PolicyError("no")))
    assert diary.said == ["begin"]


# ── keys that providers see ──────────────────────────────────────────────────


def test_the_providers_key_is_stable_within_an_epoch_and_fresh_in_the_next() -> None:
    assert provider_key("key", 1) == provider_key("key", 1)
    assert provider_key("key", 1) != provider_key("key", 2)
    assert provider_key("key", 1) != provider_key("other", 1)
    assert provider_key("key", 1) != "key"


async def test_a_redrive_after_a_refusal_asks_with_a_fresh_key() -> None:
    provider = Provider(RefusedError(422))
    with pytest.raises(RefusedError):
        await call(caller(Diary()), PURE, provider)
    await call(caller(Diary(), epoch=2), PURE, provider)
    assert len(set(provider.keys)) == 2
