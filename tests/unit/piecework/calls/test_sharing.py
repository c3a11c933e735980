"""The responses that all jobs of a tenant share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.calls.call import CallScope
from piecework.dependency import Dependency
from piecework.domain.effect import Effect
from piecework.domain.identity import named_call
from piecework.domain.protocols import NoResponseCache
from piecework.errors import PermanentError, UsageError
from tests.unit.piecework.fakes import SCOPE, caller
from tests.unit.piecework.provider import PURE, Provider, answer, call

MODEL = Dependency("model", cache_ttl_s=3600)


@dataclass
class Responses:
    """A cache in memory."""

    kept: dict[str, tuple[str, float]] = field(default_factory=dict)

    async def recall(self, key: str) -> str | None:
        found = self.kept.get(key)
        return None if found is None else found[0]

    async def keep(self, key: str, value: str, seconds: float) -> None:
        self.kept[key] = (value, seconds)


def another(responses: Any) -> Any:
    """Return the caller of another job's chunk."""
    one = caller()
    one.responses = responses
    return one


async def asked(one: Any, provider: Any, *args: Any, **facts: Any) -> Any:
    given = {"dependency": MODEL, "scope": SCOPE} | facts
    kwargs = given.pop("kwargs", {})
    return await answer(
        one, given["dependency"], provider.ask, args, kwargs, scope=given["scope"]
    )


OTHER_JOB = CallScope("acme", "other", 9, "summarise", "review")


async def test_an_equal_call_of_another_job_is_answered_from_the_cache() -> None:
    provider, responses = Provider(), Responses()
    await asked(another(responses), provider, "a")
    second = another(responses)
    assert await asked(second, provider, "a", scope=OTHER_JOB) == "answer"
    assert len(provider.keys) == 1
    assert (second.counts.made, second.counts.cached) == (0, 1)
    assert [seconds for _, seconds in responses.kept.values()] == [3600]


@pytest.mark.parametrize(
    ("scope", "dependency"),
    [(replace(SCOPE, pipeline="other"), MODEL), (SCOPE, replace(MODEL, version="2"))],
)
async def test_another_pipeline_or_version_does_not_share(
    scope: CallScope, dependency: Dependency
) -> None:
    provider, responses = Provider(), Responses()
    await asked(another(responses), provider, "a")
    await asked(another(responses), provider, "a", scope=scope, dependency=dependency)
    assert len(provider.keys) == 2


async def test_a_cached_answer_is_journalled_and_so_lasts_as_long_as_the_chunk() -> (
    None
):
    provider, responses = Provider(), Responses()
    await asked(another(responses), provider, "a")
    one = another(responses)
    await asked(one, provider, "a")
    responses.kept.clear()
    assert await asked(one, provider, "a") == "answer"
    assert (one.counts.cached, one.counts.replayed) == (1, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"scope": replace(SCOPE, tenant="other")},
        {"dependency": replace(MODEL, name="other")},
        {"kwargs": {"temperature": 0.7}},
    ],
    ids=lambda facts: next(iter(facts)),
)
async def test_another_tenant_model_or_temperature_is_another_call(
    other: dict[str, Any],
) -> None:
    provider, responses = Provider(), Responses()
    first = {"kwargs": {"temperature": 0.0}}
    await asked(another(responses), provider, "a", **first)
    await asked(another(responses), provider, "a", **(first | other))
    assert len(provider.keys) == 2


async def test_another_message_is_another_call() -> None:
    provider, responses = Provider(), Responses()
    await asked(another(responses), provider, "a")
    await asked(another(responses), provider, "b")
    assert len(provider.keys) == 2


async def test_without_a_declaration_nothing_is_shared() -> None:
    provider, responses = Provider(), Responses()
    for _ in range(2):
        await call(another(responses), PURE, provider, "a")
    assert (len(provider.keys), responses.kept) == (2, {})


async def test_without_a_cache_a_call_is_made() -> None:
    provider = Provider()
    for _ in range(2):
        await asked(another(NoResponseCache()), provider, "a")
    assert len(provider.keys) == 2


async def test_a_failure_is_not_shared() -> None:
    provider, responses = Provider(PermanentError("no")), Responses()
    with pytest.raises(PermanentError, match="no"):
        await asked(another(responses), provider, "a")
    assert responses.kept == {}


async def test_a_response_of_another_version_is_asked_for_anew() -> None:
    @named_call("ask")
    async def old(_: str, *, idempotency_key: str) -> str:
        del idempotency_key
        return "words"

    @named_call("ask")
    async def new(_: str, *, idempotency_key: str) -> int:
        del idempotency_key
        return 7

    responses = Responses()
    first, second = SimpleNamespace(ask=old), SimpleNamespace(ask=new)
    assert await asked(another(responses), first, "a") == "words"
    assert await asked(another(responses), second, "a") == 7


@pytest.mark.parametrize("seconds", [0, 3599, 86_401])
def test_a_cache_lasts_from_an_hour_to_a_day(seconds: float) -> None:
    with pytest.raises(UsageError, match="an hour and a day") as caught:
        Dependency("model", cache_ttl_s=seconds)
    assert caught.value.code == "pipeline.declaration.invalid"
    assert Dependency("model", cache_ttl_s=86_400).cache_ttl_s == 86_400


@pytest.mark.parametrize("effect", [Effect.PROVIDER_IDEMPOTENT, Effect.NON_IDEMPOTENT])
def test_what_leaves_something_behind_is_not_cached(effect: Effect) -> None:
    with pytest.raises(UsageError, match="from a cache"):
        Dependency("shop", effect=effect, cache_ttl_s=3600)
