"""What of a dependency crosses to the worker."""

from __future__ import annotations

from piecework.dependency import Dependency
from piecework.domain.model import Effect
from piecework_worker.isolation.messages import DependencySpec
from piecework_worker.isolation.session import ChildAttempts, RemoteCall


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
