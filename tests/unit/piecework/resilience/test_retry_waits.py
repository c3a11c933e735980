from __future__ import annotations

from statistics import fmean, pvariance

import pytest

from piecework.errors import TransientError
from piecework.resilience.retry import RetryPolicy, RetryTime
from tests.unit.piecework.retrying import MODEL, TOOL, Call, Run, failures


@pytest.mark.parametrize(
    ("policy", "ceilings"),
    [
        (TOOL, [0.25, 0.5, 1.0, 2.0]),
        (MODEL, [1.0, 2.0]),
        (RetryPolicy(attempts=6, base=1.0, cap=3.0), [1.0, 2.0, 3.0, 3.0, 3.0]),
    ],
)
def test_ceilings_double_from_base_up_to_the_cap(
    policy: RetryPolicy, ceilings: list[float]
) -> None:
    found = [policy.delay_limit(attempt) for attempt in range(1, policy.attempts)]

    assert ceilings == found


def test_a_ceiling_can_be_asked_for_however_many_attempts() -> None:
    assert TOOL.delay_limit(100_000) == 30.0


async def test_jitter_is_spread_evenly_from_zero_to_the_ceiling() -> None:
    policy = RetryPolicy(attempts=4, base=1.0, cap=30.0, retry_time=60.0)
    rounds = 600
    run = Run(seconds=1e9, seed=2026)
    for _ in range(rounds):
        await run(Call(*failures(3)), policy)

    for n, ceiling in enumerate([1.0, 2.0, 4.0]):
        shares = [delay / ceiling for delay in run.slept[n::3]]
        tenths = [sum(int(10 * share) == k for share in shares) for k in range(10)]
        chi_squared = sum((seen - rounds / 10) ** 2 / (rounds / 10) for seen in tenths)

        assert 0.0 <= min(shares) < 0.02
        assert 0.98 < max(shares) <= 1.0
        assert fmean(shares) == pytest.approx(1 / 2, abs=0.04)
        assert pvariance(shares) == pytest.approx(1 / 12, abs=0.01)
        assert chi_squared < 27.9  # 9 degrees of freedom, p = 0.001


async def test_retry_after_is_honoured_with_jitter_on_top() -> None:
    run = Run()
    for _ in range(200):
        run.retry_time = RetryTime()
        await run(Call(*failures(1, retry_after=5.0)), TOOL)

    assert 5.0 <= min(run.slept) < 5.02
    assert 5.23 < max(run.slept) <= 5.25


async def test_a_retry_after_of_zero_still_has_its_jitter() -> None:
    run = Run()
    await run(Call(*failures(1, retry_after=0.0)), TOOL)

    assert 0.0 < run.slept[0] <= TOOL.base


@pytest.mark.parametrize(
    ("asked", "policy_budget", "run_time", "waits"),
    [
        ([4.0, 4.0], 30.0, 60.0, 2),
        ([4.0, 4.0], 10.0, 60.0, 2),
        ([4.0, 4.0], 8.0, 60.0, 1),  # the second, with its jitter, is over the call's
        ([4.0, 4.0], 30.0, 8.0, 1),  # ... over the run's
        ([31.0], 30.0, 60.0, 0),
        ([3600.0], 7200.0, 60.0, 0),
        ([1.0], 0.0, 60.0, 0),
        ([1.0], 30.0, 0.0, 0),
    ],
)
async def test_a_wait_that_fits_no_budget_is_not_begun(
    asked: list[float], policy_budget: float, run_time: float, waits: int
) -> None:
    errors = [TransientError(f"in {each} s", retry_after=each) for each in asked]
    run, call = Run(seconds=run_time), Call(*errors)
    policy = RetryPolicy(base=0.5, retry_time=policy_budget)

    if waits == len(asked):
        assert await run(call, policy) == "answer"
    else:
        with pytest.raises(TransientError) as caught:
            await run(call, policy)
        assert caught.value is errors[waits]

    assert (waits, waits) == (len(run.slept), len(run.retries))
    assert run.retry_time.spent == pytest.approx(sum(run.slept))


async def test_calls_of_one_run_share_its_retry_time() -> None:
    run = Run(seconds=10.0)
    await run(Call(*failures(1, retry_after=6.0)), TOOL)

    with pytest.raises(TransientError):
        await run(Call(*failures(1, retry_after=6.0)), TOOL)

    assert 6.0 <= run.retry_time.spent <= 6.25


async def test_a_refused_wait_leaves_the_retry_time_to_shorter_ones() -> None:
    run = Run(seconds=10.0)
    with pytest.raises(TransientError):
        await run(Call(*failures(1, retry_after=20.0)), TOOL)

    assert await run(Call(*failures(1, retry_after=5.0)), TOOL) == "answer"


@pytest.mark.parametrize(
    ("delays", "expected", "spent"),
    [
        ([60.0], [True], 60.0),
        ([60.1], [False], 0.0),
        ([30.0, 31.0, 30.0], [True, False, True], 60.0),
        ([0.0], [True], 0.0),
    ],
)
def test_retry_time_gives_what_fits_and_nothing_else(
    delays: list[float], expected: list[bool], spent: float
) -> None:
    retry_time = RetryTime(60.0)

    assert expected == [retry_time.take(delay) for delay in delays]
    assert spent == retry_time.spent


async def test_a_wait_beyond_the_lease_is_none_of_the_worker_s() -> None:
    run = Run(seconds=600.0)
    run.retry_time.max_delay = 34.0
    policy = RetryPolicy(attempts=2, cap=300.0, retry_time=300.0)
    with pytest.raises(TransientError):
        await run(Call(*failures(1, retry_after=120.0)), policy)
    assert [] == run.slept

    assert "answer" == await run(Call(*failures(1, retry_after=20.0)), policy)


async def test_a_retry_after_of_two_minutes_is_not_awaited_in_the_worker() -> None:
    run = Run()
    with pytest.raises(TransientError) as raised:
        await run(Call(*failures(1, retry_after=120.0)), TOOL)
    assert ([], 0.0) == (run.slept, run.retry_time.spent)
    assert 120.0 == raised.value.retry_after
