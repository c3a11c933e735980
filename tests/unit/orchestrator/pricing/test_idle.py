"""The price of an idle month against what idle processes really ask for."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from orchestrator.pricing.bill import total
from orchestrator.pricing.idle import (
    RECONCILER_GB,
    RECONCILER_VCPU,
    SECONDS,
    Standing,
    idle_lines,
    known_egress,
    requests,
)
from orchestrator.pricing.table import load_prices
from piecework.errors import UsageError
from piecework.settings import Settings
from piecework.telemetry.metrics import OF_EVENT
from simulation.actors import Cast
from simulation.faults import Faults
from simulation.log import Log
from simulation.remains import remains_at_rest
from simulation.world import World

HOUR = 3600.0
ROOT = Path(__file__).parents[4]


def asked_in_an_hour(settings: Settings, role: str) -> Counter[str]:
    """Run the true loops for an hour of made-up time; count what they ask for."""
    return Counter(operation for operation, _ in requests_of_an_hour(settings, role))


def requests_of_an_hour(settings: Settings, role: str) -> list[tuple[str, str]]:
    """Return each operation that an idle process asks for, and of what: in an hour."""
    rng = Random(1)
    world = World(settings, Faults({}, rng), rng)
    cast = Cast(world, {}, Log(lambda said: None, lambda said: None))
    asked: list[tuple[str, str]] = []

    def note(what: str, exchange: Any) -> None:
        if what == "asked":
            of = exchange.request.get("QueueUrl") or exchange.request["TableName"]
            asked.append((exchange.operation, of))

    async def an_hour() -> None:
        world.on_exchange = note
        if role == "reconciler":
            cast.reconciler()
        else:
            cast.worker(reconcile=role == "both")
        await asyncio.sleep(HOUR)

    with remains_at_rest(world):
        world.loop.run(an_hour())
    return asked


@pytest.mark.parametrize(
    "changed",
    [{}, {"reconcile_s": 100.0, "receive_wait_s": 10}, {"dead_letter_alarm": 0}],
    ids=["as it comes", "rarer looks, shorter polls", "no alarms"],
)
def test_idle_processes_ask_for_what_the_price_counts(changed: dict[str, Any]) -> None:
    settings = Settings(**changed)
    said = requests(settings)

    worker = asked_in_an_hour(settings, "worker")
    reconciler = asked_in_an_hour(settings, "reconciler")

    assert {"receive_message"} == set(worker)
    assert {"receive_message", "query"} == set(reconciler)
    looks = said.looks_at_jobs + said.looks_at_letters
    assert pytest.approx(said.worker_polls * HOUR, rel=0.01) == worker.total()
    polls = said.reconciler_polls * HOUR
    assert pytest.approx(polls, rel=0.05) == reconciler["receive_message"]
    assert pytest.approx(looks * HOUR, rel=0.05) == reconciler["query"]


def test_an_idle_worker_polls_no_more_than_every_twenty_seconds() -> None:
    assert asked_in_an_hour(Settings(), "worker").total() <= HOUR / 20 + 1


@pytest.mark.parametrize("role", ["worker", "reconciler", "both"])
def test_an_idle_process_asks_each_queue_once_in_twenty_seconds(role: str) -> None:
    found = Counter(requests_of_an_hour(Settings(), role))

    receives = {of: n for (op, of), n in found.items() if op == "receive_message"}
    queries = sum(n for (op, _), n in found.items() if op == "query")
    most = HOUR / 20 + 1

    assert (2 if role == "both" else 1) == len(receives)
    assert max(receives.values()) <= most
    # At the list of jobs as often, and at two ends of the letters once a minute.
    assert queries <= (most + 2 * (HOUR / 60 + 1)) * (role != "worker")
    assert found.total() == sum(receives.values()) + queries


def test_a_month_is_what_stands_about_and_what_is_asked() -> None:
    lines = idle_lines(Settings(), Standing(), load_prices(), "us-east-1")
    counts = {line.what: line.count for line in lines}

    assert SECONDS / 20 == counts["polls"]
    assert SECONDS / 20 + 2 * SECONDS / 60 == counts["looks"]
    assert "private endpoints" not in counts
    assert pytest.approx(56.52, abs=0.01) == total(lines)


class Tagged(yaml.SafeLoader):
    """Reads a template as far as it is plain YAML."""


Tagged.add_multi_constructor("!", lambda loader, tag, node: node)


def resources(kind: str) -> list[dict[str, Any]]:
    """Return the properties of all resources of a type."""
    templates = [
        yaml.load(path.read_text(), Tagged)  # noqa: S506 -- a SafeLoader
        for path in (ROOT / "infra").glob("*.yaml")
    ]
    found = [r for t in templates for r in t["Resources"].values()]
    return [r.get("Properties", {}) for r in found if r["Type"] == kind]


def test_what_stands_about_is_what_the_templates_put_there() -> None:
    alarms = resources("AWS::CloudWatch::Alarm")
    watched = [sum("MetricStat" in m for m in a.get("Metrics", [])) for a in alarms]
    [reconciler] = [
        (int(task["Cpu"]) / 1024, int(task["Memory"]) / 1024)
        for task in resources("AWS::ECS::TaskDefinition")
        if task.get("Cpu") == "256"
    ]
    standing = Standing()

    assert standing.alarms == sum(number or 1 for number in watched)
    assert standing.composites == len(resources("AWS::CloudWatch::CompositeAlarm"))
    assert standing.dashboards == len(resources("AWS::CloudWatch::Dashboard"))
    assert standing.metrics == len(OF_EVENT["reconcile.pass"])
    assert (RECONCILER_VCPU, RECONCILER_GB) == reconciler


def test_warm_workers_and_ways_are_counted_by_the_zone_and_the_task() -> None:
    standing = Standing(workers=2, egress="public", endpoints=5, arm=True)
    lines = idle_lines(Settings(), standing, load_prices(), "us-east-1")
    counts = {line.what: line.count for line in lines}

    assert 2 * 730 * 0.5 == counts["warm workers, vCPU"]
    assert 5 * 2 * 730 == counts["private endpoints"]
    assert 3 * 730 == counts["addresses of tasks"]
    assert "NAT gateway" not in counts
    assert 3 * SECONDS / 20 == counts["polls"]


def test_a_way_out_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    assert "public" == known_egress("Public")
    with pytest.raises(UsageError) as refused:
        known_egress("tunnel")
    assert "nat, public, none" in refused.value.next_step
