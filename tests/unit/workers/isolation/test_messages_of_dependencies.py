"""What of a dependency crosses to the worker."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from piecework.calls.equal_calls import operation_ref
from piecework.calls.usage import estimated_tokens, estimated_usd
from piecework.dependency import Dependency, Fallback
from piecework.domain.effect import Effect
from piecework.errors import PermanentError
from piecework.standalone import TimeWindow
from piecework_worker.isolation.child_calls import estimates_of, known_operation
from piecework_worker.isolation.messages import Call, DependencySpec
from piecework_worker.isolation.remote_call import ChildAttempts, RemoteCall


def test_how_long_responses_are_shared_is_known_on_the_other_side() -> None:
    remote = RemoteCall(ChildAttempts(None), 1)  # type: ignore[arg-type]
    spec = DependencySpec.of(Dependency("model", cache_ttl_s=3600))

    assert 3600 == remote.dependency(spec, remote.function("ask", "ask")).cache_ttl_s


def test_how_long_a_key_is_known_is_known_on_the_other_side() -> None:
    remote = RemoteCall(ChildAttempts(None), 1)  # type: ignore[arg-type]
    kept = Dependency("shop", effect=Effect.PROVIDER_IDEMPOTENT, key_ttl_s=3600)

    found = remote.dependency(DependencySpec.of(kept), remote.function("ask", "ask"))
    assert 3600 == found.key_ttl_s


def test_the_codes_of_a_fallback_are_known_on_the_other_side() -> None:
    remote = RemoteCall(ChildAttempts(None), 1)  # type: ignore[arg-type]
    codes = frozenset({"llm.http.529_overloaded"})
    spec = DependencySpec.of(Dependency("model", fallback_codes=codes))

    assert (
        codes == remote.dependency(spec, remote.function("ask", "ask")).fallback_codes
    )


async def ask(text: str, *, idempotency_key: str) -> str:
    return text + idempotency_key


def test_a_call_that_chunks_share_has_one_slot_on_both_sides() -> None:
    remote = RemoteCall(ChildAttempts(None), 1)  # type: ignore[arg-type]
    main = Dependency("m", by=TimeWindow(60), scope=lambda text: text)
    chain = replace(main, name="n", fallback=[Fallback(main, ask)])
    slots = functools.partial(known_operation, "acme", functools.partial(ask, "rain"))
    sent = Call(1, DependencySpec.of(chain, ask, slots), "ask", "ask", "digest", [])
    codec = TypeAdapter(Call)
    spec = codec.validate_json(codec.dump_json(sent)).spec

    found = remote.dependency(spec, remote.function("ask", "ask"))
    fallback = found.fallback[0].dependency
    assert fallback is not None
    for here, there in ((chain, found), (main, fallback)):
        own = operation_ref("acme", here, ask, ("rain",), {})
        assert own is not None
        assert own == operation_ref(
            "acme", there, remote.function("ask", "ask"), (), {}
        )


def test_each_member_of_a_chain_has_its_own_estimates_on_the_other_side() -> None:
    bound = functools.partial(ask, "rain")
    cheap = Dependency("cheap", estimate=len, estimate_usd=lambda _: 0.5)
    vague = Dependency("vague", estimate=lambda _: int("no"))
    chain = [Fallback(cheap, ask), Fallback(None, print), Fallback(vague, ask)]
    main = Dependency("main", estimate=lambda _: 900, fallback=chain)
    remote = RemoteCall(ChildAttempts(None), 1)  # type: ignore[arg-type]
    spec, estimates = DependencySpec.of(main), list(estimates_of(main, bound))

    found = remote.dependency(spec, remote.function("ask", "ask"), estimates)
    first, _, last = [each.dependency for each in found.fallback]
    assert first is not None
    assert last is not None
    assert (900, None) == (estimated_tokens(found, bound), found.estimate_usd)
    assert (4, 0.5) == (estimated_tokens(first, bound), estimated_usd(first, bound))
    with pytest.raises(PermanentError, match="`estimate` of vague"):
        estimated_tokens(last, bound)
