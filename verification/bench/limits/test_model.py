"""The model of AWS's limits: what it takes from the code, and what it says."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from bench.limits import model, quotas
from bench.limits.page import CASES, SIZES, WORKERS
from bench.limits.recorded import read_patterns
from piecework.aws import payloads
from piecework.cost import persistence
from piecework.domain import keys
from piecework.jobs import fan_out
from piecework.reconciler import plan
from piecework.settings import Settings
from piecework_orchestrator.submit.intake.limits import IntakeLimits

PATTERNS = {pattern.name: pattern for pattern in read_patterns()}
STAGES = PATTERNS["three stages"]
RUNS = [
    (model.Run(chunks, workers, seconds), PATTERNS[name])
    for chunks, workers, (name, seconds) in product(SIZES, WORKERS, CASES)
]


def test_what_the_model_takes_for_granted_is_what_the_code_does() -> None:
    settings = Settings()

    assert settings.cancel_poll_s == model.POLL_S
    assert settings.lease_s == model.LEASE_S
    assert payloads.WINDOW == model.WINDOW
    assert persistence.POLL_S == model.COST_S
    assert settings.reconcile_read_units == model.RECONCILE_UNITS
    assert plan.CHUNK_BYTES == model.CHUNK_BYTES
    assert settings.journal_flush_s == 1 / model.PAGES_A_SECOND
    assert fan_out.GROUPS_AT_ONCE == model.INTERLEAVED_GROUPS
    assert max(SIZES) == IntakeLimits().chunks < keys.MAX_CHUNK_NUMBER


def test_no_limit_makes_work_faster_and_what_binds_is_kept_to() -> None:
    for run, pattern in RUNS:
        ok_answer = model.minimum_time(run, pattern)
        rate = run.chunks / ok_answer.seconds

        assert ok_answer.seconds >= run.ideal_s
        assert all(rate <= limit for _, limit in model.rates(run, pattern))


@pytest.mark.parametrize(("name", "seconds"), CASES)
def test_more_workers_are_never_slower_than_by_the_last_chunk(
    name: str, seconds: float
) -> None:
    for chunks in SIZES:
        runs = [model.Run(chunks, workers, seconds) for workers in WORKERS]
        times = [model.minimum_time(run, PATTERNS[name]).seconds for run in runs]
        assert all(more <= fewer + seconds for fewer, more in pairwise(times))


@pytest.mark.parametrize(
    ("run", "name", "mark"),
    [
        (model.Run(10_000_000, 10_000, 600.0), "three stages", quotas.IN_FLIGHT),
        (model.Run(10_000_000, 10_000, 10.0), "three stages", quotas.TABLE_WRITES),
        (model.Run(100_000, 100, 1.0), "three stages", quotas.PARTITION_WRITES),
        (model.Run(10_000_000, 1_000, 1.0), "no calls", quotas.PREFIX_READS),
        (model.Run(10_000_000, 1_000, 600.0), "three stages", None),
        (model.Run(100_000, 100, 1.0), "no calls", None),
    ],
)
def test_each_limit_binds_where_it_is_the_narrowest(
    run: model.Run, name: str, mark: quotas.Quota | None
) -> None:
    assert mark is model.minimum_time(run, PATTERNS[name]).by


def test_120_000_in_flight_are_kept_to_by_time() -> None:
    run = model.Run(10_000_000, 10_000, 600.0)
    assert 10_000_000 / 120_000 * 600 + 600 == model.minimum_time(run, STAGES).seconds


def test_no_item_comes_near_its_limit_however_large_the_job() -> None:
    assert model.job_item_bytes(keys.MAX_CHUNK_NUMBER, STAGES) < quotas.ITEM.limit / 40
    assert model.tally_units(keys.MAX_CHUNK_NUMBER) < 2


def test_a_new_table_bears_twice_as_much_each_half_hour() -> None:
    half_hour = 1800.0
    assert 1.0 == model.new_table_s(4_000)
    assert half_hour + 1 == model.new_table_s(4_000 * half_hour + 8_000)
    warm = (4_000 + 8_000 + 16_000 + 32_000) * half_hour
    assert 4 * half_hour + 10 == model.new_table_s(warm + 400_000)


def test_a_submit_is_as_fast_as_the_partitions_that_it_writes_to() -> None:
    assert 256 / 1000 == pytest.approx(model.submit_s(256, STAGES))
    assert 1_000_000 / 16_000 == pytest.approx(model.submit_s(1_000_000, STAGES))


def test_a_fleet_meets_its_limits_where_the_page_says() -> None:
    ok_answer = {each.what: each.max_workers for each in model.fleet_demands(STAGES)}
    assert (
        1_500
        == ok_answer["polls of the job's item"]
        == ok_answer["polls of the breakers"]
    )
    assert 200 == ok_answer["a reconciler beside each worker"]
