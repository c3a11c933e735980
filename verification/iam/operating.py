"""What operators do besides mending: steer jobs, answer, compensate, set webhooks."""

from __future__ import annotations

from tests.client.planted import plant
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item
from verification.iam.actors import PATIENCE_S, READ, WHY, WRITE, YES, Actors

TOKENS = ("--budget-tokens",)
ASKING = "verification.iam.pipelines:asking"
TRAVEL = "tests.scenarios.pipelines:travel"
#: No server listens there: each delivery fails at once.
WEBHOOK = ("ops", "--url", "http://127.0.0.1:9/", "--secret", "env:PIECEWORK_WEBHOOK_X")


async def set_a_webhook(actors: Actors) -> None:
    """Set the webhook to which every later event goes, and try it."""
    await actors.command(WRITE, "webhooks", "set", *WEBHOOK, "--after", "1s", *WHY)
    await actors.command(WRITE, "webhooks", "test", "ops")


async def steer_jobs(actors: Actors) -> None:
    """Change what the fleet, a tenant, a pipeline and a job may use."""
    for verb in ("pause", "resume"):
        await actors.command(WRITE, "limits", verb, "supplier", *WHY)
    await actors.command(WRITE, "pipelines", "pause", "counting", *WHY)
    await actors.submit(
        "held", [Item(n=1)] * 3, "--pin", "--priority", "low", *TOKENS, "10"
    )
    await actors.command(WRITE, "pipelines", "resume", "counting", *WHY)
    await actors.command(WRITE, "jobs", "set-priority", "held", "high", *WHY)
    await actors.command(WRITE, "jobs", "unpin", "held", *WHY)
    await actors.command(WRITE, "jobs", "accept-changes", "held", *YES, code=2)
    await actors.command(WRITE, "jobs", "set-budget", "held", *TOKENS, "20", *WHY)
    await spend_a_day(actors)


async def spend_a_day(actors: Actors) -> None:
    """Let a daily budget and a cap of the tenant hold a job, and raise the budget."""
    cap = ("limits", "set", "tenant:default")
    daily = ("budgets", "set", "default")
    await actors.command(WRITE, *cap, "--concurrent", "5", *WHY)
    await actors.command(WRITE, *daily, "--daily-tokens", "20", *WHY)
    await actors.submit("spent", [Item(n=n, calls=9) for n in range(3)])
    async with actors.worker() as scenario:
        await scenario.until(lambda: is_paused(scenario, "spent"), PATIENCE_S)
        await actors.command(READ, "budgets", "list")
        await actors.command("reconciler", "reconcile", "--once")
        await actors.command(WRITE, *daily, "--daily-tokens", "9000000", *WHY)
        await scenario.ended("spent", PATIENCE_S)
    await actors.command(WRITE, *daily, "--unset", *WHY)
    await actors.command(WRITE, *cap, "--unset", *WHY)


async def is_paused(scenario: Scenario, job: str) -> bool:
    """Return whether a job is paused."""
    return (await scenario.job(job)).pause is not None


async def answer_and_compensate(actors: Actors) -> None:
    """Forecast a sample, answer a question, compensate by hand and by a worker."""
    items = [Item(n=n) for n in range(2)]
    await actors.submit("asked", items[:1], pipeline=ASKING)
    failing = [Item(n=n, trouble="car-permanent hotel-half") for n in range(2)]
    await actors.submit("booked", failing, pipeline=TRAVEL)
    async with actors.worker() as scenario:
        await actors.submit("sampled", items, "--sample", "1")
        await actors.command(READ, "jobs", "forecast", "sampled", "--no-wait")
        await scenario.until(lambda: asked(actors), PATIENCE_S)
        await actors.command(READ, "approvals", "show", "asked", "0")
        yes = ("asked", "0", "--approve")
        await actors.command(WRITE, "approvals", "answer", *yes, *WHY)
        await scenario.ended("asked", PATIENCE_S)
        await scenario.ended("booked", PATIENCE_S)
        chunk = ("--job", "booked", "--chunk")
        by_hand = ("0", "--outcome", "compensated")
        await actors.command(WRITE, "dlq", "compensate", *chunk, *by_hand, *YES)
        await actors.command(WRITE, "dlq", "compensate", *chunk, "1", *YES)
        await scenario.ended("booked", PATIENCE_S)


async def steer_batches(actors: Actors) -> None:
    """Read batches that a worker has made, cancel one, and let others go direct."""
    async with actors.connected("worker") as rt:
        await plant(rt, "small")
    await actors.command(READ, "batches", "list", "--all")
    await actors.command(READ, "batches", "show", "batch_abc")
    await actors.command(WRITE, "batches", "cancel", "batch_abc", *YES)
    await actors.command(WRITE, "batches", "direct", *YES)
    await actors.command(WRITE, "batches", "direct", "batch_abc", *YES)


async def asked(actors: Actors) -> bool:
    """Return whether the stage has asked its question."""
    told = await actors.command(READ, "approvals", "list", "-o", "json")
    return bool(told.document)


async def read_what_operators_set(actors: Actors) -> None:
    """Run the reading commands about questions, webhooks and timelines."""
    for words in (
        "jobs timeline small",
        "jobs timeline small 1",
        "jobs show booked",
        "webhooks list",
        "webhooks show ops",
    ):
        await actors.command(READ, *words.split())


async def retry_a_webhook(actors: Actors) -> None:
    """Retry events that failed because their webhook was removed; remove it again."""
    await actors.command(WRITE, "webhooks", "remove", "ops", *YES)
    await actors.command("reconciler", "reconcile", "--once")
    await actors.command(WRITE, "webhooks", "set", *WEBHOOK, *WHY)
    told = await actors.command(WRITE, "webhooks", "retry", "ops", *WHY, "-o", "json")
    if not told.document:
        actors.failed.append("webhooks retry: no event has failed")
