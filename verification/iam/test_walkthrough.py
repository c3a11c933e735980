"""Run a job through a proxy that decides as IAM does: each actor has its own role."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from piecework.aws.endpoint import Emulator
from tests.scenarios.pipelines import Item
from verification.iam.actors import (
    PATIENCE_S,
    READ,
    WHY,
    WRITE,
    YES,
    Actors,
    actor_environment,
)
from verification.iam.proxy import make_proxy
from verification.iam.used import Grant, unused
from verification.iam.walkthrough import PATCH, no_message_left


@pytest.fixture
async def actors(
    deployed: Emulator, environment_name: str, tmp_path: Path
) -> AsyncIterator[Actors]:
    """Return actors whose roles have the defaults of the template."""
    proxy = make_proxy(
        deployed.endpoint, environment_name, OperatorsReadPayloads="false"
    )
    async with proxy.open() as url:
        with actor_environment(url, environment_name, tmp_path):
            yield Actors(proxy, deployed, environment_name, tmp_path)


async def test_each_actor_does_its_part_with_its_own_role(actors: Actors) -> None:
    await actors.submit("small", [Item(n=0, calls=1), Item(n=1, trouble="permanent")])
    async with actors.worker() as scenario:
        await scenario.ended("small", PATIENCE_S)
    told = await actors.command(READ, "dlq", "show", "small", "1", "-o", "json")
    actors.drop("work-dlq", "not one of ours")
    async with actors.scenario("reconciler") as scenario, scenario.reconciler():
        await scenario.until(lambda: no_message_left(actors), PATIENCE_S)
    await actors.command(WRITE, "dlq", "redrive", "--job", "small", *YES)

    assert [] == actors.failed
    assert [] == [*actors.proxy.strange]
    # Operators are not shown what was submitted unless their roles were given it.
    denied = {
        (c.actor, c.action, "/payload/" in c.resource) for c in actors.proxy.denied
    }
    assert {(READ, "s3:GetObject", True)} == denied
    assert (None, "tool.stock.none") == (
        told.document["payload"],
        told.document["error_code"],
    )


async def test_who_lacks_a_right_is_told_so_and_changes_nothing(actors: Actors) -> None:
    await actors.submit("small", [Item(n=0)])
    before = await actors.command(READ, "jobs", "show", "small", "-o", "json")
    refused = await actors.command(READ, "jobs", "cancel", "small", *YES, code=2)
    patch = ("--job", "small", "--chunk", "0", *PATCH, *WHY)
    await actors.command(READ, "dlq", "redrive", *patch, "--dry-run", code=2)
    after = await actors.command(READ, "jobs", "show", "small", "-o", "json")

    assert [] == actors.failed
    assert "AccessDenied" in refused.stderr or "aws.access.denied" in refused.stderr
    assert before.document == after.document
    assert {"dynamodb:UpdateItem"} == {call.action for call in actors.proxy.denied}


async def test_a_payload_that_is_gone_is_a_dead_letter_and_not_a_refusal(
    actors: Actors,
) -> None:
    await actors.submit("small", [Item(n=0)])
    s3 = actors.direct_client("s3")
    bucket = f"piecework-{actors.env}-000000000000-us-east-1"
    prefix = "tenants/default/jobs/small/payload/"
    (pack,) = s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    s3.delete_object(Bucket=bucket, Key=pack["Key"])
    async with actors.worker() as scenario:
        await scenario.ended("small", PATIENCE_S)
        (chunk,) = await scenario.chunks("small")

    dead = "DEAD", "runtime.object.missing"
    assert dead == (str(chunk.status), chunk.item["error_code"])


def test_a_grant_that_nothing_needs_is_found() -> None:
    statement = {
        "Effect": "Allow",
        "Action": "sqs:PurgeQueue",
        "Resource": "arn:aws:sqs:us-east-1:000000000000:q",
    }
    (found,) = unused({"worker": [statement]}, [])
    assert Grant("worker", "sqs:PurgeQueue", str(statement["Resource"])) == found
