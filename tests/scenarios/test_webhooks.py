"""Guarantee: a webhook gets each event at least once, signed, and knows repetitions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path

import pytest

from piecework_examples.webhook_receiver.receiver import Inbox, serve
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.pause import pause
from piecework_orchestrator.operate.webhooks import (
    Subscription,
    set_webhook,
    show_webhook,
)
from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting

SUBSCRIPTION = "webhook.subscription.invalid"
SECRET = "a-secret-of-the-receiver-0123456789"


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inbox:
    monkeypatch.setenv("PIECEWORK_WEBHOOK_SECRET", SECRET)
    return Inbox.open(tmp_path / "events.db")


@pytest.fixture
def receiver(inbox: Inbox, tmp_path: Path) -> Iterator[HTTPServer]:
    """Run the receiver of the examples."""
    del inbox
    server = serve(SECRET, tmp_path / "events.db")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


async def subscribe(
    scenario: Scenario, port: int, *events: str, after_s: int = 0
) -> None:
    wanted = Subscription(
        "ops",
        f"http://127.0.0.1:{port}/",
        "env:PIECEWORK_WEBHOOK_SECRET",
        events=events,
        pipeline="counting",
        after_s=after_s,
    )
    await set_webhook(scenario.rt, wanted, "tester")


async def delivered(scenario: Scenario, count: int) -> bool:
    """Return whether so many deliveries are delivered, and no other one waits."""
    found = await show_webhook(scenario.rt, "ops")
    return [n["state"] for n in found["deliveries"]] == ["DELIVERED"] * count


async def test_the_end_of_a_job_and_its_dead_letters_are_events(
    machine: Scenario,
    inbox: Inbox,
    receiver: HTTPServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await subscribe(machine, receiver.server_port)
    for name, value in {"ALARM_WINDOW_S": 60.0, "AGE_S": 5.0}.items():
        setting = f"dead_letter_{name.lower()}"
        object.__setattr__(machine.rt.settings, setting, value)
    await machine.submit(
        counting,
        [Item(n=1, seconds=4), *(Item(n=n, trouble="permanent") for n in (2, 3, 4))],
    )
    async with machine.worker(), machine.reconciler():
        await machine.until(lambda: delivered(machine, 2))

    told = {event["type"]: event for event in inbox.bodies()}
    ended, arrived = told["job.ended"], told["dead_letters.arrived"]
    assert ended["data"]["outcomes"] == {"DEAD": 3, "SUCCEEDED": 1}
    assert (ended["job"], ended["pipeline"]) == ("job-1", "counting")
    assert arrived["data"]["count"] == 3
    assert SECRET not in str(await show_webhook(machine.rt, "ops"))


async def test_a_stuck_job_and_its_end_are_sent(
    machine: Scenario, inbox: Inbox, receiver: HTTPServer
) -> None:
    await subscribe(machine, receiver.server_port, "job.stuck", after_s=1)
    await machine.submit(counting, [Item(n=1)])
    async with machine.reconciler():
        await machine.until(lambda: delivered(machine, 1))
        async with machine.worker():
            await machine.until(lambda: delivered(machine, 2))

    stuck, over = inbox.bodies()
    assert (stuck["type"], over["type"]) == ("job.stuck", "job.stuck.over")
    assert stuck["data"]["finding"]["code"] == "workers.none"
    assert over["data"]["began"] == stuck["id"]


async def test_a_pause_and_the_end_of_a_cancel_are_events(
    machine: Scenario, inbox: Inbox, receiver: HTTPServer
) -> None:
    await subscribe(machine, receiver.server_port, "job.paused", "job.ended")
    job, _ = await machine.submit(counting, [Item(n=1)])
    await pause(machine.rt, job.ref, actor="ann", reason="look at chunk 0")
    await cancel(machine.rt, job.ref, actor="ann", reason="wrong input")
    async with machine.worker(), machine.reconciler():
        await machine.until(lambda: len(inbox.bodies()) == 2)

    paused, ended = inbox.bodies()
    assert (paused["type"], paused["data"]["code"]) == ("job.paused", "operator")
    assert (ended["type"], ended["data"]["status"]) == ("job.ended", "CANCELLED")


async def test_an_operator_sets_tries_repairs_and_removes_a_webhook(
    machine: Scenario, inbox: Inbox, receiver: HTTPServer
) -> None:
    secret, url = "env:PIECEWORK_WEBHOOK_SECRET", "env:PIECEWORK_WEBHOOK_CHAT"
    for words, code in (
        (("--url", "http://10.0.0.1/", "--secret", secret), "webhook.address.refused"),
        (("--url", "https://x.example", "--secret", SECRET), SUBSCRIPTION),
        (("--url", "https://x.example"), SUBSCRIPTION),
        (("--url", "https://x.example", "--format", "slack"), SUBSCRIPTION),
        (("--url", url, "--secret", secret, "--event", "no.event"), SUBSCRIPTION),
    ):
        refused = await piecework("webhooks", "set", "ops", *words)
        assert (refused.exit_code, code in refused.stderr) == (2, True)
        assert SECRET not in refused.stdout + refused.stderr
    assert (await piecework("webhooks", "show", "ops")).exit_code == 3

    here = f"http://127.0.0.1:{receiver.server_port}/"
    words = ("--url", here, "--secret", secret, "-o", "json")
    done = await piecework("webhooks", "set", "ops", *words)
    assert (done.exit_code, done.document["secret"]) == (0, secret)
    tried = await piecework("webhooks", "test", "ops", "-o", "json")
    await piecework("reconcile")
    assert [body["id"] for body in inbox.bodies()] == [tried.document["event"]]
    for words in (("list",), ("show", "ops"), ("retry", "ops")):
        assert (await piecework("webhooks", *words)).exit_code == 0
    shown = await piecework("webhooks", "show", "ops", "-o", "json")
    assert [row["state"] for row in shown.document["deliveries"]] == ["DELIVERED"]
    assert (await piecework("webhooks", "remove", "ops", "--yes")).exit_code == 0
    assert (await piecework("webhooks", "list", "-o", "json")).document == []
