"""The cost of an idle month, checked against the requests of real idle loops."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from piecework.errors import UsageError
from piecework.settings import Settings
from piecework.telemetry.metrics import METRICS_BY_EVENT
from piecework_orchestrator.cost.bill import total
from piecework_orchestrator.cost.idle import (
    RECONCILER_GB,
    RECONCILER_VCPU,
    SECONDS,
    IdleDeployment,
    idle_lines,
    idle_requests,
    parse_egress,
)
from piecework_orchestrator.cost.prices import load_prices
from piecework_simulation.driver.processes import FleetDriver
from piecework_simulation.engine.faults import Faults
from piecework_simulation.engine.leftovers import leftovers_discarded
from piecework_simulation.engine.sandbox import Log
from piecework_simulation.engine.world import World
from piecework_worker.report import IDLE_S

HOUR = 3600.0
ROOT = Path(__file__).parents[4]


def count_requests(settings: Settings, role: str) -> Counter[str]:
    """Run the real loops for an hour of virtual time; count their requests."""
    return Counter(operation for operation, _ in requests_of_an_hour(settings, role))


def requests_of_an_hour(settings: Settings, role: str) -> list[tuple[str, str]]:
    """Return operation and target of each request of an idle process in an hour."""
    rng = Random(1)
    world = World(settings, Faults({}, rng), rng)
    fleet = FleetDriver(world, {}, Log(lambda text: None, lambda text: None))
    requested: list[tuple[str, str]] = []

    def note(what: str, exchange: Any) -> None:
        if what == "asked":
            of = exchange.request.get("QueueUrl") or exchange.request["TableName"]
            requested.append((exchange.operation, of))

    async def an_hour() -> None:
        world.on_exchange = note
        if role == "reconciler":
            fleet.reconciler()
        else:
            fleet.worker(reconcile=role == "both")
        await asyncio.sleep(HOUR)

    with leftovers_discarded(world):
        world.loop.run(an_hour())
    return requested


@pytest.mark.parametrize(
    "changed",
    [{}, {"reconcile_s": 100.0, "receive_wait_s": 10}, {"dead_letter_alarm": 0}],
    ids=["defaults", "rarer passes, shorter polls", "no alarms"],
)
def test_idle_processes_make_the_requests_that_the_cost_assumes(
    changed: dict[str, Any],
) -> None:
    settings = Settings(**changed)
    expected = idle_requests(settings)

    worker = count_requests(settings, "worker")
    reconciler = count_requests(settings, "reconciler")

    assert {"receive_message", "query"} == set(worker)
    assert {"receive_message", "query"} == set(reconciler)
    queries = expected.job_queries + expected.dead_letter_queries
    queries += expected.expiry_queries
    polls, looks = expected.worker_polls * HOUR, expected.worker_queries * HOUR
    assert pytest.approx(polls, rel=0.01) == worker["receive_message"]
    assert pytest.approx(looks, rel=0.01) == worker["query"]
    polls = expected.reconciler_polls * HOUR
    assert pytest.approx(polls, rel=0.05) == reconciler["receive_message"]
    assert pytest.approx(queries * HOUR, rel=0.05) == reconciler["query"]


@pytest.mark.parametrize("role", ["worker", "reconciler", "both"])
def test_an_idle_process_polls_each_queue_every_twenty_seconds(role: str) -> None:
    found = Counter(requests_of_an_hour(Settings(), role))

    receives = {of: n for (op, of), n in found.items() if op == "receive_message"}
    queries = sum(n for (op, _), n in found.items() if op == "query")
    most = HOUR / 20 + 1

    assert (2 if role == "both" else 1) == len(receives)
    assert max(receives.values()) <= most
    # A process reads the backlogs and the job list as often as a queue. It reads the
    # dead letters' ends once a minute, and the expiries six times an hour.
    backlogs = most * (role != "reconciler")
    others = most + 2 * (HOUR / 60 + 1) + HOUR / 600 + 1
    assert queries <= backlogs + others * (role != "worker")
    assert found.total() == sum(receives.values()) + queries


def test_an_idle_month_has_lines_for_resources_and_requests() -> None:
    lines = idle_lines(Settings(), IdleDeployment(), load_prices(), "us-east-1")
    counts = {line.item: line.count for line in lines}

    assert SECONDS / 20 == counts["polls"]
    assert SECONDS / 20 + 2 * SECONDS / 60 + SECONDS / 600 == counts["queries"]
    assert {"private endpoints", "NAT gateway"}.isdisjoint(counts)
    assert 43 == counts["Container Insights"]
    assert pytest.approx(37.27, abs=0.01) == total(lines)


class Tagged(yaml.SafeLoader):
    """Reads a template as plain YAML, without the functions."""


Tagged.add_multi_constructor("!", lambda loader, tag, node: node)


@cache
def declared() -> list[dict[str, Any]]:
    """Return the resources of all templates."""
    templates = [
        yaml.load(path.read_text(), Tagged)  # noqa: S506 -- a SafeLoader
        for path in (ROOT / "infra").glob("*.yaml")
    ]
    return [resource for each in templates for resource in each["Resources"].values()]


def resources(kind: str) -> list[dict[str, Any]]:
    """Return the properties of all resources of a type."""
    return [r.get("Properties", {}) for r in declared() if r["Type"] == kind]


def test_the_default_deployment_matches_the_templates() -> None:
    alarms = resources("AWS::CloudWatch::Alarm")
    # A query that is not a mapping belongs to a queue that a pipeline declares.
    watched = [
        sum(isinstance(m, dict) and "MetricStat" in m for m in a.get("Metrics", []))
        for a in alarms
    ]
    [reconciler] = [
        (int(task["Cpu"]) / 1024, int(task["Memory"]) / 1024)
        for task in resources("AWS::ECS::TaskDefinition")
        if task.get("Cpu") == "256"
    ]
    deployment = IdleDeployment()

    assert deployment.alarms == sum(number or 1 for number in watched)
    assert deployment.composites == len(resources("AWS::CloudWatch::CompositeAlarm"))
    assert deployment.dashboards == len(resources("AWS::CloudWatch::Dashboard"))
    # A deployment without batches does not write those about them.
    written = [n for n, _ in METRICS_BY_EVENT["reconcile.pass"] if "Batch" not in n]
    assert deployment.metrics == len(written)
    assert (RECONCILER_VCPU, RECONCILER_GB) == reconciler


def test_warm_workers_and_endpoints_are_counted_by_task_and_zone() -> None:
    deployment = IdleDeployment(workers=2, egress="public", endpoints=5, arm=True)
    lines = idle_lines(Settings(), deployment, load_prices(), "us-east-1")
    counts = {line.item: line.count for line in lines}

    assert 2 * 730 * 0.5 == counts["warm workers, vCPU"]
    assert 5 * 2 * 730 == counts["private endpoints"]
    assert 3 * 730 == counts["task addresses"]
    assert "NAT gateway" not in counts
    assert 3 * SECONDS / 20 == counts["polls"]
    assert 2 * SECONDS / IDLE_S == counts["reports"]
    assert 63 == counts["Container Insights"]


def test_a_nat_gateway_has_lines_of_its_own_and_is_no_default() -> None:
    lines = idle_lines(
        Settings(), IdleDeployment(egress="nat"), load_prices(), "us-east-1"
    )
    items = {line.item for line in lines}
    network = yaml.load((ROOT / "infra/network.yaml").read_text(), Tagged)  # noqa: S506

    assert {"NAT gateway", "NAT gateway address"} <= items
    assert IdleDeployment().egress == network["Parameters"]["Egress"]["Default"]


def test_an_unknown_egress_is_refused_with_the_known_kinds() -> None:
    assert "public" == parse_egress("Public")
    with pytest.raises(UsageError) as refused:
        parse_egress("tunnel")
    assert "nat, public, none" in refused.value.next_step
