"""A play in which each actor does all that it ever does, past the door."""

from __future__ import annotations

import json
from unittest.mock import patch

from piecework.domain import keys
from piecework.reconciler import jobs as reconciling
from piecework.standalone import idempotent
from piecework.store.idempotency import TableIdempotency
from piecework_orchestrator import submit as submitting
from tests.scenarios.command_line import COUNTING, manifest
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item
from verification.iam.cast import Cast
from verification.iam.pipelines import LARGE as LONG

LARGE = "verification.iam.pipelines:large"
FAXING = "tests.scenarios.pipelines:faxing"
LEANING = "tests.scenarios.pipelines:leaning"
WHY = ("--reason", "played")
YES = (*WHY, "--yes")
PATCH = ("--patch", '{"trouble": ""}')
INBOX = "inbox"
#: Seconds within which all comes to an end, on the slowest of machines.
PATIENCE_S = 100.0
#: Some chunks died, and a command says so.
DIED = 5
REFUSED = 2
SUBMIT, READ, WRITE = "orchestrator", "operator-read", "operator-write"
DEPLOY = "deploy"


async def play(cast: Cast) -> None:
    """Play it from the first submit to the last message."""
    await cast.command(DEPLOY, "infra", "destroy", "--with-data", "--dry-run")
    await submits(cast)
    await works(cast)
    await reads(cast)
    await puts_right(cast)
    await writes(cast)
    await deploys(cast)


async def submits(cast: Cast) -> None:
    """Submit from a file, from S3, and only to see what it would be."""
    s3 = cast.backstage("s3")
    s3.create_bucket(Bucket=INBOX)
    items = (Item(n=1), Item(n=2, trouble="yes"))
    lines = "".join(f"{item.model_dump_json()}\n" for item in items)
    s3.put_object(Bucket=INBOX, Key="manifests/large.jsonl", Body=lines.encode())
    source = f"s3://{INBOX}/manifests/large.jsonl"
    await cast.command(SUBMIT, "doctor")
    await cast.command(SUBMIT, "submit", LARGE, source, "--dry-run")
    await cast.command(SUBMIT, "submit", LARGE, source, "--job-id", "large")
    troubles = ("", "permanent", "transient", "permanent", "permanent")
    small = [Item(n=n, trouble=trouble) for n, trouble in enumerate(troubles)]
    await submit(cast, "small", small)
    await submit(cast, "fax", [Item(n=7)], pipeline=FAXING)


async def submit(
    cast: Cast, job: str, items: list[Item], *more: str, pipeline: str = COUNTING
) -> None:
    """Submit a job from a file."""
    path = manifest(cast.folder / f"{job}.jsonl", items)
    await cast.command(SUBMIT, "submit", pipeline, path, "--job-id", job, *more)


async def works(cast: Cast) -> None:
    """Work on all that, and on a message that is nobody's; the submitter waits."""
    cast.drop("work", "not one of ours")
    async with cast.worker() as scenario:
        await scenario.ended("large", PATIENCE_S)
        await scenario.ended("small", PATIENCE_S)
        await scenario.ended("fax", PATIENCE_S)
        await submit(cast, "waited", [Item(n=1)], "--wait")
        await remembers(scenario)
        await submit(cast, "leaning", [Item(n=n) for n in range(4)], pipeline=LEANING)
        breakers = scenario.rt.table
        await scenario.until(lambda: breakers.first(keys.BREAKERS_PK, 1), PATIENCE_S)


async def remembers(scenario: Scenario) -> None:
    """Do something once, as a pipeline may outside of its calls."""
    rt = scenario.rt
    store = TableIdempotency(rt.table, rt.settings.tenant, rt.clock)

    @idempotent(store, scope="played")
    async def order(n: int) -> int:
        return n

    assert [1, 1] == [await order(1), await order(1)]


async def reads(cast: Cast) -> None:
    """Run every command that changes nothing."""
    for words, code in (
        ("doctor", 0),
        ("config show", 0),
        ("jobs list", 0),
        ("jobs show small", 0),
        ("jobs watch small", DIED),
        ("jobs events small", 0),
        ("jobs cancel small --compensate --dry-run", 0),
        ("jobs cost small", 0),
        ("chunks list small", 0),
        ("chunks show small 1", 0),
        (f"results large --save {cast.folder / 'saved'}", 0),
        ("results small --follow", DIED),
        ("dlq list", 0),
        ("dlq list --job small", 0),
        ("dlq show small 1", 0),
        ("dlq stats", 0),
        ("dlq export --payload", 0),
    ):
        await cast.command(READ, *words.split(), code=code)


async def puts_right(cast: Cast) -> None:
    """Look after a submit that was cut off, a job past its deadline, and messages."""
    cast.drop("work-dlq", "not one of ours")
    items = [Item(n=n) for n in range(2)]
    await submit(cast, "late", items, "--deadline", "1s")
    with patch.object(submitting, "fan_out", nothing):
        await submit(cast, "cut-off", items)
    await cast.command("reconciler", "reconcile", "--once")
    with patch.object(reconciling, "SUBMIT_TIMEOUT_S", 0.0):
        async with cast.scenario("reconciler") as scenario, scenario.reconciler():
            await scenario.ended("late", PATIENCE_S)
            await scenario.until(lambda: sent(scenario, "cut-off"), PATIENCE_S)
            letters, alarms = scenario.rt.dead_letters, keys.alarms_pk("default")
            await scenario.until(lambda: letters.first(alarms, 1), PATIENCE_S)
            lost = {"v": 1, "tenant": "default", "job": "cut-off", "chunk": 0, "gen": 1}
            cast.drop("work-dlq", json.dumps(lost))
            await scenario.until(lambda: drained(cast), PATIENCE_S)


async def nothing(*_: object) -> None:
    """Be the fan-out of a submitter that died."""


async def sent(scenario: Scenario, job: str) -> bool:
    """Say whether a job's chunks have been sent."""
    return "sent_at" in (await scenario.job(job)).item


def drained(cast: Cast) -> bool:
    """Say whether nothing is left in the dead-letter queue."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = cast.backstage("sqs").get_queue_attributes(
        QueueUrl=cast.queue("work-dlq"), AttributeNames=names
    )
    return not any(int(found["Attributes"][name]) for name in names)


async def writes(cast: Cast) -> None:
    """Run every command that changes something."""
    await settles(cast)
    small = ("--job", "small")
    await cast.command(WRITE, "dlq", "discard", *small, "--chunk", "4", *YES)
    one = (*small, "--chunk", "1")
    await cast.command(WRITE, "dlq", "redrive", *one, *PATCH, *YES)
    async with cast.worker() as scenario:
        await scenario.ended("small", PATIENCE_S)
        some = ("--canary", "1", "--code", "tool.*")
        await cast.command(WRITE, "dlq", "redrive", *small, *some, *PATCH, *YES)
        await cast.command(WRITE, "jobs", "retry", "large", *WHY)
        await scenario.ended("large", PATIENCE_S)
    await cast.command(WRITE, "dlq", "redrive", "--code", "tool.*", "--dry-run")
    await submit(cast, "unwanted", [Item(n=n) for n in range(3)])
    await cast.command(WRITE, "jobs", "cancel", "unwanted", *YES)
    await cast.command(WRITE, "jobs", "resume", "unwanted", *WHY)
    with patch.object(submitting, "fan_out", nothing):
        await submit(cast, "unwritten", [Item(n=n) for n in range(2)])
    await cast.command(WRITE, "jobs", "cancel", "unwritten", *YES)


async def settles(cast: Cast) -> None:
    """Say of an effect in doubt that it happened, and what came of it, at length."""
    told = await cast.command(READ, "effects", "list", "fax", "-o", "json")
    key = str(told.document[0]["effect_key"])
    said = ("--outcome", "happened", "--answer", json.dumps(LONG))
    await cast.command(WRITE, "effects", "resolve", "fax", "0", key, *said, *YES)


async def deploys(cast: Cast) -> None:
    """Look at stacks, change one, propose another; a job keeps them from going."""
    image = f"some/image@sha256:{'0' * 64}"
    given = f"--image {image} --pipelines some.module --vpc vpc-1 --subnets a,b"
    for words, code in (
        ("status", 0),
        ("deploy --stack data --parameter Protect=false --yes", 0),
        ("deploy --stack data --yes", 0),
        (f"diff --stack service {given}", 0),
        ("destroy --with-data --dry-run", REFUSED),
    ):
        await cast.command(DEPLOY, "infra", *words.split(), code=code)
