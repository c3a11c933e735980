"""Run, through the proxy, every command and path of each actor."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest.mock import patch

import structlog

from piecework.client import Client
from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework.reconciler import jobs as reconciling
from piecework.reconciler.loop import Reconciler
from piecework.store.workers import WorkerReports
from piecework_orchestrator.submit import submit as submitting
from piecework_orchestrator.ui.overview import Overview, read_workers
from piecework_orchestrator.ui.pacing import Pacing
from tests.scenarios.conftest import Scenario
from tests.scenarios.mapping import Tree
from tests.scenarios.pipelines import Item
from verification.iam.actors import (
    DELETE,
    DEPLOY,
    DIED,
    PATIENCE_S,
    READ,
    SUBMIT,
    WHY,
    WRITE,
    YES,
    Actors,
)
from verification.iam.operating import (
    answer_and_compensate,
    read_what_operators_set,
    retry_a_webhook,
    set_a_webhook,
    steer_batches,
    steer_jobs,
)
from verification.iam.pipelines import LARGE as LONG

LARGE = "verification.iam.pipelines:large"
FAXING = "tests.scenarios.pipelines:faxing"
LEANING = "tests.scenarios.pipelines:leaning"
NOTICING = "tests.scenarios.pipelines:noticing"
BOOKING = "tests.scenarios.pipelines:booking"
PATCH = ("--patch", '{"trouble": ""}')
MAPPING = "tests.scenarios.mapping:trees"
INBOX = "inbox"
REFUSED = 2


async def run_every_command(actors: Actors) -> None:
    """Run everything from the first submit to the last message."""
    await actors.command(DEPLOY, "infra", "destroy", "--with-data", "--dry-run")
    await set_a_webhook(actors)
    await submit_jobs(actors)
    await run_workers(actors)
    await steer_jobs(actors)
    await answer_and_compensate(actors)
    await steer_batches(actors)
    await run_reading_commands(actors)
    await read_what_operators_set(actors)
    await read_the_page(actors)
    await reconcile_leftovers(actors)
    await run_writing_commands(actors)
    await retry_a_webhook(actors)
    await delete_jobs(actors)
    await deploy_stacks(actors)


async def submit_jobs(actors: Actors) -> None:
    """Submit from a file, from S3, and only to see what it would be."""
    s3 = actors.direct_client("s3")
    s3.create_bucket(Bucket=INBOX)
    items = (Item(n=1), Item(n=2, trouble="yes"))
    lines = "".join(f"{item.model_dump_json()}\n" for item in items)
    s3.put_object(Bucket=INBOX, Key="manifests/large.jsonl", Body=lines.encode())
    source = f"s3://{INBOX}/manifests/large.jsonl"
    await actors.command(SUBMIT, "doctor")
    await actors.command(SUBMIT, "submit", LARGE, source, "--dry-run")
    await actors.command(SUBMIT, "submit", LARGE, source, "--job-id", "large")
    troubles = ("", "permanent", "transient", "permanent", "permanent")
    small = [Item(n=n, trouble=trouble) for n, trouble in enumerate(troubles)]
    await actors.submit("small", small)
    await actors.submit("fax", [Item(n=7)], pipeline=FAXING)


async def run_workers(actors: Actors) -> None:
    """Run these jobs and a foreign message; a submitter waits for its job."""
    actors.drop("work", "not one of ours")
    async with actors.worker() as scenario:
        await scenario.ended("large", PATIENCE_S)
        await scenario.ended("small", PATIENCE_S)
        await scenario.ended("fax", PATIENCE_S)
        await actors.submit("waited", [Item(n=1)], "--wait")
        for pipeline in (NOTICING, BOOKING):  # equal calls: by a window, by a number
            name = pipeline.rpartition(":")[2]
            items = [Item(n=1, trouble="x") for _ in range(2)]
            await actors.submit(name, items, "--wait", pipeline=pipeline)
        await actors.submit("mapped", [Tree(n=1)], "--wait", pipeline=MAPPING)
        await report(scenario)
        await actors.submit("leaning", [Item(n=n) for n in range(4)], pipeline=LEANING)
        breakers = scenario.rt.table
        await scenario.until(lambda: breakers.first(keys.BREAKERS_PK, 1), PATIENCE_S)


async def report(scenario: Scenario) -> None:
    """Report a worker, as each worker's process does."""
    reports = WorkerReports(scenario.rt.table, "w1", scenario.rt.clock)
    await reports.report(
        {"counting": ""},
        ("",),
        (),
        max_chunks=1,
        in_progress=0,
        lease_s=10.0,
        due_in_s=60.0,
    )
    await reports.stop()


async def run_reading_commands(actors: Actors) -> None:
    """Run every command that changes nothing."""
    for words, code in (
        ("doctor", 0),
        ("config show", 0),
        ("jobs list", 0),
        ("jobs show small", 0),
        ("jobs explain small", 0),
        ("jobs watch small", DIED),
        ("jobs events small", 0),
        ("jobs cancel small --compensate --dry-run", 0),
        ("jobs cost small", 0),
        ("chunks list small", 0),
        ("chunks show small 1", 0),
        ("chunks calls small 1", 0),
        ("jobs diff small large", 0),
        (f"results large --save {actors.folder / 'saved'}", 0),
        ("results small --follow", DIED),
        ("limits list", 0),
        ("pipelines list", 0),
        ("approvals list", 0),
        ("events", 0),
        ("dlq list", 0),
        ("dlq list --job small", 0),
        ("dlq show small 1", 0),
        ("dlq stats", 0),
        ("dlq export --payload", 0),
    ):
        await actors.command(READ, *words.split(), code=code)


async def read_the_page(actors: Actors) -> None:
    """Read what the web page shows besides what commands read, as each operator."""
    for actor in (READ, WRITE):
        async with actors.connected(actor) as rt:
            client = Client(runtime=rt)
            assert await Overview(client, Pacing(rt)).read()
            assert await read_workers(rt)
    actors.commands_run.append(("ui",))


async def reconcile_leftovers(actors: Actors) -> None:
    """Reconcile an interrupted submit, a job past its deadline, and messages."""
    actors.drop("work-dlq", "not one of ours")
    items = [Item(n=n) for n in range(2)]
    await actors.submit("late", items, "--deadline", "1s")
    with patch.object(submitting, "fan_out", nothing):
        await actors.submit("cut-off", items)
    await actors.command("reconciler", "reconcile", "--once")
    with patch.object(reconciling, "SUBMIT_TIMEOUT_S", 0.0):
        async with actors.scenario("reconciler") as scenario, scenario.reconciler():
            await scenario.ended("late", PATIENCE_S)
            await scenario.until(lambda: sent(scenario, "cut-off"), PATIENCE_S)
            letters, alarms = scenario.rt.dead_letters, keys.alarms_pk("default")
            await scenario.until(lambda: letters.first(alarms, 1), PATIENCE_S)
            lost = {"v": 1, "tenant": "default", "job": "cut-off", "chunk": 0, "gen": 1}
            actors.drop("work-dlq", json.dumps(lost))
            await scenario.until(lambda: no_message_left(actors), PATIENCE_S)


async def nothing(*_: object) -> None:
    """Replace the fan-out of a submitter that died."""


async def sent(scenario: Scenario, job: str) -> bool:
    """Return whether a job's chunks have been sent."""
    return "sent_at" in (await scenario.job(job)).item


def no_message_left(actors: Actors) -> bool:
    """Return whether nothing is left in the dead-letter queue."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = actors.direct_client("sqs").get_queue_attributes(
        QueueUrl=actors.queue("work-dlq"), AttributeNames=names
    )
    return not any(int(found["Attributes"][name]) for name in names)


async def run_writing_commands(actors: Actors) -> None:
    """Run every command that changes something."""
    await resolve_an_effect(actors)
    limit = ("--requests-per-minute", "500")
    await actors.command(WRITE, "limits", "set", "supplier", *limit)
    await actors.command(WRITE, "limits", "set", "supplier", "--unset")
    small = ("--job", "small")
    await actors.command(WRITE, "dlq", "discard", *small, "--chunk", "4", *YES)
    one = (*small, "--chunk", "1")
    await actors.command(WRITE, "dlq", "redrive", *one, *PATCH, *YES)
    async with actors.worker() as scenario:
        await scenario.ended("small", PATIENCE_S)
        some = ("--canary", "1", "--code", "tool.*")
        await actors.command(WRITE, "dlq", "redrive", *small, *some, *PATCH, *YES)
        await actors.command(WRITE, "jobs", "retry", "large", *WHY)
        await scenario.ended("large", PATIENCE_S)
    await actors.command(WRITE, "dlq", "redrive", "--code", "tool.*", "--dry-run")
    await actors.submit("unwanted", [Item(n=n) for n in range(3)])
    for verb in ("pause", "resume"):
        await actors.command(WRITE, "jobs", verb, "unwanted", *WHY)
    await actors.command(WRITE, "jobs", "cancel", "unwanted", *YES)
    await actors.command(WRITE, "jobs", "retry", "unwanted", *WHY)
    with patch.object(submitting, "fan_out", nothing):
        await actors.submit("unwritten", [Item(n=n) for n in range(2)])
    await actors.command(WRITE, "jobs", "cancel", "unwritten", *YES)


async def resolve_an_effect(actors: Actors) -> None:
    """Resolve an effect in doubt as happened, with a large answer."""
    told = await actors.command(READ, "effects", "list", "fax", "-o", "json")
    key = str(told.document[0]["effect_key"])
    said = ("--outcome", "happened", "--answer", json.dumps(LONG))
    await actors.command(WRITE, "effects", "resolve", "fax", "0", key, *said, *YES)


async def delete_jobs(actors: Actors) -> None:
    """Delete jobs with dead letters, and let the retention delete another one."""
    for job in ("small", "booked"):
        await actors.command(DELETE, "jobs", "delete", job, *YES)
    # The retry died again, and an open dead letter keeps its job.
    await actors.command(WRITE, "dlq", "discard", "--job", "large", *YES)
    async with actors.connected("reconciler") as rt:
        later = rt.clock() + rt.settings.job_retention_days * 86_400.0 + 60.0
        aged = replace(rt, clock=lambda: later)
        reconciler = Reconciler(aged, structlog.get_logger())
        await reconciler.run_pass()
        await reconciler.run_pass()
        gone = await rt.jobs.read(JobRef("default", "large"))
        assert gone is not None
        assert gone.status.gone


async def deploy_stacks(actors: Actors) -> None:
    """Read stacks, change one, propose another; an active job blocks `destroy`."""
    image = f"some/image@sha256:{'0' * 64}"
    given = f"--image {image} --pipelines some.module --vpc vpc-1 --subnets a,b"
    given += " --owner team --runbook page"
    for words, code in (
        ("status", 0),
        ("deploy --stack data --parameter Protect=false --yes", 0),
        ("deploy --stack data --yes", 0),
        (f"diff --stack service {given}", 0),
        ("destroy --with-data --dry-run", REFUSED),
    ):
        await actors.command(DEPLOY, "infra", *words.split(), code=code)
