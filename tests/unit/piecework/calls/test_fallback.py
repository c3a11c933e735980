from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from piecework.calls.call import call_key
from piecework.context import Context
from piecework.dependency import Dependency, Fallback, FallbackUsed
from piecework.domain.arguments import digest_of
from piecework.domain.effect import Effect
from piecework.domain.identity import named_call
from piecework.domain.outcome import Succeeded
from piecework.domain.protocols import ClaimLostError
from piecework.errors import PermanentError, PolicyError, TransientError
from piecework.pipelines import Pipeline, Stage
from piecework.resilience.breaker import breaker_open_error
from piecework.resilience.retry import RetryPolicy
from piecework.testing import run_in_memory
from tests.unit.piecework.fakes import SCOPE, Clause, Diary, Log, caller, context, run
from tests.unit.piecework.provider import Provider, RefusedError, answer

ONE_TRY = RetryPolicy(attempts=1)
REFUSAL = PolicyError("not that", code="llm.policy.refusal")
SMALL = Dependency("small", layer="llm", retry=RetryPolicy(attempts=2, base=0.01))


def by_rules(*args: Any, **kwargs: Any) -> str:
    return f"rules {args} {kwargs}"


async def by_slow_rules(*args: Any, function: object) -> str:
    await asyncio.sleep(0)
    return f"slow rules {args} {function}"


class Chain:
    """A large model, then a small one, then rules."""

    def __init__(self, large: list[Any], small: list[Any]) -> None:
        self.large = Provider(*large, answer="from the large one")
        self.small = Provider(*small, answer="from the small one")
        fallback = [Fallback(SMALL, self.small.ask), Fallback(None, by_rules)]
        self.dependency = Dependency(
            "large", layer="llm", retry=ONE_TRY, fallback=fallback
        )

    async def call(self, by: Any, *args: Any, **kwargs: Any) -> Any:
        return await answer(by, self.dependency, self.large.ask, args, kwargs)

    @property
    def asked(self) -> tuple[int, int]:
        return len(self.large.keys), len(self.small.keys)


async def test_an_answer_is_remembered_after_the_name_of_its_author() -> None:
    """Otherwise a crash in between would leave it as the large model's own."""
    chain, one = Chain([REFUSAL], []), caller()
    recorded: list[str] = []

    class Journal:
        def recall(self, _: str) -> str | None:
            return None

        async def record(self, _: str, value: str, *more: object) -> None:
            recorded.append(value)

    one.journal = Journal()  # type: ignore[assignment]
    await chain.call(one, "a")
    assert ['"small"', '"from the small one"'] == recorded[-2:]


async def test_without_a_refusal_no_fallback_is_called() -> None:
    chain, one, log = Chain([], []), caller(), Log()
    assert "from the large one" == await chain.call(one, "a")
    assert (1, 0) == chain.asked
    assert {} == one.fallbacks_used
    assert "call.fallback_used" not in log.names()


async def test_a_refusal_by_policy_asks_the_next_with_the_same_arguments() -> None:
    log = Log()
    chain, one = Chain([REFUSAL], []), caller(log=log)
    assert "from the small one" == await chain.call(one, "a", b=1)
    assert [("a", {"b": 1})] == chain.small.args
    said = [fields for event, fields in log.said if event == "call.fallback_used"]
    assert said == [
        {
            "dependency": "large",
            "stage": SCOPE.stage,
            "answered_by": "small",
            "error_codes": ["llm.policy.refusal"],
        }
    ]


async def test_the_last_of_a_chain_may_be_a_function_of_ours() -> None:
    log = Log()
    chain, one = Chain([REFUSAL], [REFUSAL]), caller(log=log)
    found = await chain.call(one, "a", fallback=1, function=2)
    assert "rules ('a',) {'fallback': 1, 'function': 2}" == found
    (said,) = [fields for event, fields in log.said if event == "call.fallback_used"]
    assert ("by_rules", 2) == (said["answered_by"], len(said["error_codes"]))


async def test_a_function_of_ours_may_be_async() -> None:
    provider = Provider(REFUSAL)
    large = Dependency("large", fallback=[Fallback(None, by_slow_rules)])
    found = await answer(caller(), large, provider.ask, ["a"], {"function": "b"})
    assert "slow rules ('a',) b" == found


async def test_an_open_breaker_asks_the_next() -> None:
    chain = Chain([breaker_open_error("large", 30.0)], [])
    assert "from the small one" == await chain.call(caller())


@pytest.mark.parametrize(
    "error", [TransientError("later"), PermanentError("never"), RefusedError(404)]
)
async def test_no_other_failure_does(error: Exception) -> None:
    chain = Chain([error], [])
    with pytest.raises(type(error)):
        await chain.call(caller())
    assert (1, 0) == chain.asked


async def test_what_the_last_one_raises_is_raised() -> None:
    chain = Chain([REFUSAL], [PermanentError("never")])
    with pytest.raises(PermanentError, match="never"):
        await chain.call(caller())


async def test_the_next_has_a_key_and_retries_of_its_own() -> None:
    chain = Chain([REFUSAL], [TransientError("later")])
    assert "from the small one" == await chain.call(caller())
    assert (1, 2) == chain.asked
    assert len({*chain.large.keys, *chain.small.keys}) == 2


async def test_the_answer_is_remembered_as_the_first_ones() -> None:
    diary, chain = Diary(), Chain([REFUSAL], [])
    await chain.call(caller(diary), "a")
    log = Log()
    later = caller(diary, gen=2, log=log)
    assert "from the small one" == await chain.call(later, "a")
    assert (1, 1) == chain.asked
    assert [FallbackUsed(SCOPE.stage, "large", "small")] == list(
        later.fallbacks_used.values()
    )
    assert "call.fallback_used" not in log.names()
    assert 1 == later.counts.replayed


async def test_an_answer_of_the_first_is_remembered_as_just_that() -> None:
    diary, chain = Diary(), Chain([], [])
    await chain.call(caller(diary), "a")
    later = caller(diary)
    assert "from the large one" == await chain.call(later, "a")
    assert ((1, 0), {}) == (chain.asked, later.fallbacks_used)


async def test_it_is_remembered_as_the_next_ones_too() -> None:
    chain, one = Chain([REFUSAL], []), caller()
    await chain.call(one, "a")
    await answer(one, SMALL, chain.small.ask, ["a"])
    assert (1, 1) == chain.asked


async def test_an_answer_of_its_own_is_not_taken_for_anothers() -> None:
    diary, chain = Diary(), Chain([REFUSAL], [])
    one = caller(diary)
    key = call_key(SCOPE, chain.dependency, chain.large.ask, digest_of(["a"], {}))
    await diary.record(f"{key}.by", '"small"')  # the page with the answer was lost
    chain.large.errors.clear()
    assert "from the large one" == await chain.call(one, "a")
    assert {} == one.fallbacks_used


async def test_a_call_made_twice_at_once_falls_back_once() -> None:
    chain, one = Chain([REFUSAL], []), caller()
    both = await asyncio.gather(chain.call(one, "a"), chain.call(one, "a"))
    assert ["from the small one"] * 2 == list(both)
    assert (1, 1) == chain.asked


async def test_a_stage_can_read_which_variant_answered() -> None:
    chain = Chain([REFUSAL], [])

    async def first(ctx: Context[Clause]) -> list[str]:
        await ctx.call(chain.dependency, chain.large.ask, "a")
        return [
            f"{fell.dependency} -> {fell.answered_by}" for fell in ctx.fallbacks_used
        ]

    async def second(ctx: Context[Clause]) -> list[str]:
        return [*ctx.result(first), *map(str, ctx.fallbacks_used)]

    pipeline = Pipeline("seen", payload=Clause, stages=[Stage(first), Stage(second)])
    outcome = await run(pipeline, ctx=context(pipeline))
    assert Succeeded('["large -> small"]') == outcome


async def test_a_run_in_memory_falls_back_too() -> None:
    chain = Chain([REFUSAL], [REFUSAL])

    async def stage(ctx: Context[Clause]) -> str:
        answer = str(await ctx.call(chain.dependency, chain.large.ask, "a"))
        if ctx.attempt == 1:
            message = "later"
            raise TransientError(message)
        return answer

    pipeline = Pipeline("memory", payload=Clause, stages=[Stage(stage)])
    done = await run_in_memory(pipeline, [Clause()])
    assert {0: "rules ('a',) {}"} == done.results
    assert (1, 1) == chain.asked


# ── effects ─────────────────────────────────────────────────────────────────

FULL = PolicyError("full", code="tool.policy.quota", http_status=422)


class Hotels:
    """One hotel, and another if the first is full."""

    def __init__(self, *first: Any, effect: Effect = Effect.PROVIDER_IDEMPOTENT):  # noqa: ANN204
        self.one = Provider(*first, answer="one")
        self.other = Provider(answer="other")
        other = Dependency("other", effect=Effect.PROVIDER_IDEMPOTENT)
        self.dependency = Dependency(
            "one",
            effect=effect,
            retry=RetryPolicy(attempts=2, base=0.01),
            fallback=[Fallback(other, self.other.ask)],
        )

    async def book(self, by: Any) -> Any:
        return await answer(by, self.dependency, self.one.ask, ["room"])

    @property
    def asked(self) -> tuple[int, int]:
        return len(self.one.keys), len(self.other.keys)


async def test_an_effect_that_was_plainly_refused_is_had_elsewhere() -> None:
    hotels, one = Hotels(FULL), caller()
    assert "other" == await hotels.book(one)
    assert [FallbackUsed(SCOPE.stage, "one", "other")] == list(
        one.fallbacks_used.values()
    )


@pytest.mark.parametrize("effect", [Effect.PROVIDER_IDEMPOTENT, Effect.NON_IDEMPOTENT])
async def test_an_effect_that_may_have_happened_is_not_had_again_elsewhere(
    effect: Effect,
) -> None:
    hotels = Hotels(PolicyError("who knows"), effect=effect)
    with pytest.raises((PolicyError, PermanentError)):
        await hotels.book(caller())
    assert (1, 0) == hotels.asked


async def test_a_refusal_after_a_time_out_is_no_refusal() -> None:
    hotels = Hotels(TimeoutError(), FULL)
    with pytest.raises(PolicyError):
        await hotels.book(caller())
    assert (2, 0) == hotels.asked


async def test_a_refusal_of_what_an_earlier_claim_had_begun_is_none() -> None:
    diary, hotels = Diary(), Hotels(FULL)
    key = call_key(SCOPE, hotels.dependency, hotels.one.ask, digest_of(["room"], {}))
    await diary.begin(key, SCOPE.stage, Effect.PROVIDER_IDEMPOTENT, 1.0)
    with pytest.raises(PolicyError):
        await hotels.book(caller(diary))
    assert (1, 0) == hotels.asked


async def test_a_breaker_that_is_open_was_not_asked_and_so_has_not_done_it() -> None:
    hotels = Hotels(breaker_open_error("one", 30.0), effect=Effect.NON_IDEMPOTENT)
    assert "other" == await hotels.book(caller())


async def test_a_later_claim_calls_the_variant_whose_effect_may_have_happened() -> None:
    diary, hotels, log = Diary(), Hotels(FULL), Log()
    await hotels.book(caller(diary))
    later = caller(diary, log=log)
    assert "other" == await hotels.book(later)
    assert (1, 1) == hotels.asked
    assert "call.fallback_used" not in log.names()
    assert [FallbackUsed(SCOPE.stage, "one", "other")] == list(
        later.fallbacks_used.values()
    )


async def test_also_if_the_worker_died_before_the_answer() -> None:
    diary, hotels = Diary(), Hotels(FULL)
    hotels.other.errors = [ClaimLostError()]
    with pytest.raises(ClaimLostError):
        await hotels.book(caller(diary))
    assert "other" == await hotels.book(caller(diary))
    assert (1, 2) == hotels.asked
    assert 1 == len(set(hotels.other.keys))


async def test_the_last_variant_whose_effect_may_have_happened_is_called_again() -> (
    None
):
    diary, hotels, last = Diary(), Hotels(FULL), Provider(ClaimLostError())
    hotels.other.errors = [FULL]
    inn = Dependency("inn", effect=Effect.PROVIDER_IDEMPOTENT)
    chain = [*hotels.dependency.fallback, Fallback(inn, last.ask)]
    hotels.dependency = replace(hotels.dependency, fallback=chain)
    with pytest.raises(ClaimLostError):
        await hotels.book(caller(diary))
    await hotels.book(caller(diary))
    assert ((1, 1), 2) == (hotels.asked, len(last.keys))


async def test_after_compensation_the_first_variant_is_called_again() -> None:
    diary, hotels = Diary(), Hotels(FULL)
    await hotels.book(caller(diary))
    diary.effects.clear()
    assert "one" == await hotels.book(caller(diary))


async def test_a_variant_that_changes_its_arguments_changes_no_other() -> None:
    given: list[Any] = []
    diary, hotels = Diary(), Hotels()

    @named_call("full")
    async def full(request: dict[str, str], *, idempotency_key: str) -> str:
        del idempotency_key
        request["hotel"] = "one"
        given.append("one")
        raise FULL

    @named_call("book")
    async def book(request: dict[str, str], *, idempotency_key: str) -> str:
        del idempotency_key
        given.append(request)
        return "other"

    other = replace(hotels.dependency.fallback[0], function=book)
    dependency = replace(hotels.dependency, fallback=[other])
    for _ in range(2):
        await answer(caller(diary), dependency, full, [{"room": "12"}])
    assert ["one", {"room": "12"}] == given


async def test_a_function_of_ours_may_be_a_lambda_around_an_async_one() -> None:
    chain = Chain([REFUSAL], [REFUSAL])
    last = Fallback(None, lambda text: by_slow_rules(text, function=1))
    dependency = replace(chain.dependency, fallback=[last])
    found = await answer(caller(), dependency, chain.large.ask, ["a"])
    assert "slow rules ('a',) 1" == found
