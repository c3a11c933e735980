"""What of a dependency crosses to the worker."""

from __future__ import annotations

from piecework.dependency import Dependency
from workers.isolation.attempts import Attempts
from workers.isolation.messages import Outside
from workers.isolation.remote import Remote


def test_how_long_responses_are_shared_is_known_on_the_other_side() -> None:
    remote = Remote(Attempts(None), 1)  # type: ignore[arg-type]
    outside = Outside.of(Dependency("model", cache_s=3600))

    assert 3600 == remote.dependency(outside, remote.function("ask")).cache_s
