"""Alarms about dead letters: when they are given, how often, and at what price."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.reconciler.dead_letter_queue import EVALUATIONS, DeadLetterAlarms
from piecework.settings import Settings
from piecework.store.dead_letters import open_letter_key, open_mark, raise_alarm
from piecework.store.outbox import Outbox
from tests.store.conftest import SETTINGS, Store, Stutter
from tests.store.deployment import runtime
from tests.unit.piecework.fakes import Log

ROOT = Path(__file__).parents[2]
WINDOW, AGE = 300.0, 86_400.0


def alarms(store: Store, **changed: Any) -> tuple[DeadLetterAlarms, Log]:
    settings = replace(SETTINGS, **{"tenant": store.ref.tenant, **changed})
    log: Any = Log()
    return DeadLetterAlarms(replace(runtime(store), settings=settings), log), log


async def put_dead_letters(
    store: Store, count: int, *, ago: float = 0.0, pipeline: str = "p"
) -> None:
    for chunk in range(count):
        dead_letter = {
            "tenant": store.ref.tenant,
            "job": store.ref.job,
            "chunk": chunk,
            "gen": 1,
            "pipeline": pipeline,
            "dead_lettered_at": iso(store.now - ago),
        }
        await store.dead_letter_table.put(
            open_mark(store.dead_letter_table, dead_letter)
        )


async def given(store: Store, **changed: Any) -> list[str]:
    watch, log = alarms(store, **changed)
    await watch.evaluate(1.0, {store.ref.tenant})
    return [str(facts["about"]) for name, facts in log.said if name == "dlq.alarm"]


@pytest.mark.parametrize(
    ("count", "ago", "expected"),
    [
        (2, 0.0, []),
        (3, 0.0, ["arrivals"]),
        (3, WINDOW + 1, ["arrivals"]),  # no reconciler ran when they came
        (1, AGE - 1, []),
        (1, AGE + 1, ["age"]),
        (9, AGE + 1, ["age"]),
    ],
)
async def test_an_alarm_is_given_when_many_arrive_or_one_grows_old(
    store: Store, count: int, ago: float, expected: list[str]
) -> None:
    await put_dead_letters(store, count, ago=ago)
    assert expected == await given(store)


def test_the_alarm_of_cloudwatch_has_the_same_threshold() -> None:
    text = (ROOT / "infra" / "alarms.yaml").read_text()
    alarm = text.partition("  DeadLettersAlarm:")[2].partition("\n\n")[0]
    facts = dict(re.findall(r"^      (\w+): ([\w.]+)$", alarm, re.MULTILINE))
    defaults = Settings()
    assert facts["MetricName"] == "DeadLetters"
    assert facts["Statistic"] == "Sum"
    assert facts["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
    assert float(facts["Threshold"]) == defaults.dead_letter_alarm == 3
    assert float(facts["Period"]) == defaults.dead_letter_alarm_window_s == 300


@pytest.mark.parametrize("of", [{}, {"tenant": "of-the-reconciler"}])
async def test_the_alarm_writes_events_also_for_the_webhooks_of_one_pipeline(
    store: Store, of: dict[str, str]
) -> None:
    tenant = store.ref.tenant
    for name, pipeline in (("all", ""), ("ours", "p"), ("other", "q")):
        hook = {"url": "https://x.example", "format": "json", "pipeline": pipeline}
        await store.put(keys.webhooks_pk(tenant), name, **hook)
    await put_dead_letters(store, 2, pipeline="p")
    await put_dead_letters(store, 1, ago=1.0, pipeline="q")
    outbox = Outbox(store.table, tenant, store.clock)

    assert ["arrivals"] == await given(store, **of)
    assert [delivery.webhook for delivery in await outbox.deliveries()] == ["all"]
    await put_dead_letters(store, 3, ago=2.0, pipeline="p")
    for _ in range(2):
        assert [] == await given(store, **of)
    assert {delivery.webhook for delivery in await outbox.deliveries()} == {
        "all",
        "ours",
    }


async def test_without_a_limit_of_dead_letters_there_is_no_alarm(store: Store) -> None:
    await put_dead_letters(store, 9, ago=AGE + 1)
    assert [] == await given(store, dead_letter_alarm=0)


async def test_all_reconcilers_together_give_an_alarm_once_a_window(
    store: Store,
) -> None:
    await put_dead_letters(store, 4)
    assert [["arrivals"], [], []] == [await given(store) for _ in range(3)]
    store.now += WINDOW - 1
    await put_dead_letters(store, 4)
    assert [] == await given(store)
    store.now += 1
    assert ["arrivals"] == await given(store)


async def test_a_redriven_or_discarded_dead_letter_gives_no_alarm(store: Store) -> None:
    await put_dead_letters(store, 4)
    for chunk in range(4):
        key = open_letter_key(store.ref.chunk(chunk), 1, iso(store.now))
        await store.dead_letter_table.transact(
            [store.dead_letter_table.item_write("Delete", *key)]
        )
    assert [] == await given(store)


async def test_an_evaluation_is_two_small_reads_a_few_times_in_a_window(
    store: Store,
) -> None:
    await put_dead_letters(store, 9)
    watch, _ = alarms(store)
    counting = CountingClient(store.client)
    store.client = counting
    watch.rt = replace(watch.rt, dead_letters=store.dead_letter_table)
    await watch.evaluate(1.0)
    assert {"query": 2, "update_item": 1} == counting.asked
    await watch.evaluate(1.0 + WINDOW / EVALUATIONS - 1)
    assert 3 == counting.asked.total()
    # Two windows later the alarm is not asked for again.
    store.now += 2 * WINDOW
    for evaluation in (1, 2):
        await watch.evaluate(1.0 + evaluation * WINDOW / EVALUATIONS)
    assert {"query": 6, "update_item": 2} == counting.asked
    assert counting.read == 3 * (9 + 1)


async def test_an_alarm_that_is_due_again_is_given_again(store: Store) -> None:
    table, tenant = store.dead_letter_table, store.ref.tenant
    now = store.now
    give = {"quiet_s": 60.0}
    assert await raise_alarm(table, tenant, "age", now=now, **give) is True
    assert await raise_alarm(table, tenant, "age", now=now + 59, **give) is False
    assert await raise_alarm(table, tenant, "arrivals", now=now, **give) is True
    assert await raise_alarm(table, tenant, "age", now=now + 60, **give) is True


async def test_an_alarm_whose_answer_was_lost_is_given_once(store: Store) -> None:
    stutter = Stutter(store.client)
    store.client = stutter
    table, tenant = store.dead_letter_table, store.ref.tenant
    assert await raise_alarm(table, tenant, "age", now=store.now, quiet_s=60.0) is True
    assert 1 == stutter.sent


class CountingClient:
    """A client that counts the requests, and the items that were read."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.asked: Counter[str] = Counter()
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        send = getattr(self.client, name)

        async def counted(**request: Any) -> Any:
            self.asked[name] += 1
            reply = await send(**request)
            self.read += len(reply.get("Items", ()))
            return reply

        return counted
