"""The results of the template's policy in virtual time."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from piecework.settings import Settings
from verification.scaling import arrivals, fleet, simulate
from verification.scaling.arrivals import Case
from verification.scaling.policy import read_scaling
from verification.scaling.rivals import rivals
from verification.scaling.simulate import Outcome, World
from verification.scaling.template import read

#: No bound below may depend on the luck of one seed.
SEEDS = (1, 2)
AS_BUILT = World()
each_seed = pytest.mark.parametrize("seed", SEEDS)


def run(
    case: Case, seed: int = 1, world: World = AS_BUILT, **parameters: int
) -> Outcome:
    scaling = read_scaling(read("scaling", **parameters))
    return simulate.simulate(case, scaling, seed, world)


@cache
def thousand(seed: int = 1) -> Case:
    return arrivals.burst(1000, 60, Random(seed))


@each_seed
@pytest.mark.parametrize("counts_none", [True, False])
def test_a_burst_starts_as_many_workers_as_it_needs_and_they_stop_after_it(
    seed: int, *, counts_none: bool
) -> None:
    found = run(thousand(seed), seed, World(counts_none=counts_none))

    assert found.first_s < 300
    assert found.all_ended_s < 15 * 60
    assert 8 <= found.peak <= 16
    assert found.cost < 3
    assert found.left == 0


def test_a_queue_that_has_no_figures_yet_does_not_keep_a_job_waiting() -> None:
    found = run(arrivals.single(Random(1)))

    assert found.first_s < 7 * 60


def test_steady_work_causes_few_reversals_and_little_cost() -> None:
    found = run(arrivals.steady(60, 60, 60, Random(1)))

    assert found.reversals <= 3
    assert found.cost < 2
    assert found.wait(0.95) < 8 * 60
    assert found.interrupted == 0


def test_chunks_that_wait_for_hours_keep_no_worker_running() -> None:
    case = arrivals.long_waits(Random(8))
    ours, theirs = run(case), rivals(20, 96)["visible and not a task"]

    assert ours.cost < 5
    assert ours.wait(1.0) < 12 * 60
    assert simulate.simulate(case, theirs, 1).cost > 3 * ours.cost


@each_seed
@pytest.mark.parametrize(
    "case",
    [arrivals.waves(Random(6)), arrivals.burst(1000, 600, Random(4), "long ones")],
    ids=lambda case: case.name,
)
def test_no_scale_in_stops_a_chunk_although_workers_pause_their_protection(
    seed: int, case: Case
) -> None:
    bare, built, kept = (
        run(case, seed, World(protection)) for protection in ("none", "built", "kept")
    )

    assert built.interrupted == 0
    assert built.pauses > 0, "no worker ended its protection while there was work"
    assert (kept.interrupted, kept.pauses) == (0, 0)
    assert bare.interrupted > 0, "the case is too easy to show anything"


def test_old_messages_bring_help_when_chunks_take_long() -> None:
    case, kept = arrivals.burst(90, 600, Random(4)), World("kept")

    helped, alone = run(case, 1, kept), run(case, 1, kept, OldestSeconds=43_200)

    assert helped.all_ended_s < 0.8 * alone.all_ended_s


def test_the_figures_are_those_of_the_template() -> None:
    case = arrivals.burst(300, 30, Random(1))

    assert run(case).peak == 4
    assert run(case, BacklogPerTask=320).peak < 4
    assert run(case, MaxWorkers=3).peak == 3
    assert run(case, MinWorkers=1).left == 1


def test_a_policy_on_the_processor_never_sees_the_backlog() -> None:
    case = arrivals.burst(300, 60, Random(1))
    found = simulate.simulate(case, rivals(20, 96)["processor at 50 %"], 1)

    assert found.peak == 1
    assert found.all_ended_s > 1.5 * run(case).all_ended_s


def test_what_is_simulated_is_what_the_service_runs_with() -> None:
    service = read("service")
    (container,) = service["Resources"]["WorkerTask"]["Properties"][
        "ContainerDefinitions"
    ]
    told = {v["Name"]: v["Value"] for v in container["Environment"] if "Name" in v}
    cluster = service["Resources"]["Cluster"]["Properties"]

    assert simulate.SLOTS == service["Parameters"]["MaxChunks"]["Default"]
    assert simulate.SLOTS == read("scaling")["Parameters"]["MaxChunks"]["Default"]
    assert Settings().max_chunks == simulate.SLOTS
    assert fleet.GRACE_S == float(told["PIECEWORK_SHUTDOWN_GRACE_S"])
    assert told["PIECEWORK_METRICS"] == "emf"
    insights = {s["Name"]: s["Value"] for s in cluster["ClusterSettings"]}
    assert insights["containerInsights"] in {"enabled", "enhanced"}
    assert "DesiredCount" not in service["Resources"]["WorkerService"]["Properties"]
