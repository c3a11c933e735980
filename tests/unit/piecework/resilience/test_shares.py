"""The calls in flight that workers may have never sum up to more than the limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from piecework.resilience.shares import SHARE_LASTS, SHARE_SKEW, Share, divide

NOW = 1_700_000_000_000_000
#: Time passes, and a worker asks; whether it dies then: it is not heard of again.
TURNS = st.lists(
    st.tuples(
        st.integers(0, SHARE_LASTS // 2),
        st.sampled_from("abcde"),
        st.integers(0, 40),
        st.integers(0, 40),
    ),
    max_size=60,
)


@given(TURNS, st.integers(1, 30))
def test_no_sum_of_shares_exceeds_the_limit(
    turns: list[tuple[int, str, int, int]], limit: int
) -> None:
    shares: dict[str, Share] = {}
    now = NOW
    for passes, worker, wanted, in_flight in turns:
        now += passes
        shares, most = divide(
            shares, worker, wanted=wanted, in_flight=in_flight, limit=limit, now=now
        )
        assert sum(share.calls for share in shares.values()) <= limit
        assert most <= shares.get(worker, Share()).calls


def ask(shares: dict[str, Share], worker: str, wanted: int, now: int = NOW) -> int:
    """Ask for calls in flight; return the worker's calls."""
    in_flight = shares.get(worker, Share()).calls // 2
    found, _ = divide(
        shares, worker, wanted=wanted, in_flight=in_flight, limit=12, now=now
    )
    shares.clear()
    shares.update(found)
    return shares.get(worker, Share()).calls


def test_workers_that_want_more_than_there_is_get_equal_parts() -> None:
    shares: dict[str, Share] = {}
    assert [12, 0, 6, 6] == [ask(shares, worker, 20) for worker in "abab"]
    assert [6, 6] == [ask(shares, worker, 20) for worker in "ab"]


def test_an_idle_worker_gives_its_share_back() -> None:
    shares: dict[str, Share] = {}
    assert [12, 0] == [ask(shares, worker, 20) for worker in "ab"]
    divided, _ = divide(shares, "a", wanted=0, in_flight=0, limit=12, now=NOW)
    assert {"b"} == set(divided)


def test_the_share_of_a_dead_worker_is_free_after_its_lease() -> None:
    shares: dict[str, Share] = {}
    ask(shares, "dead", 12)
    assert 0 == ask(shares, "b", 5, NOW + SHARE_LASTS)
    assert 5 == ask(shares, "b", 5, NOW + SHARE_LASTS + SHARE_SKEW)
