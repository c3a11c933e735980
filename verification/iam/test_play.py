"""A job's life past a door that lets in as IAM would: each actor with its own role."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from piecework.aws.endpoint import Emulator
from tests.scenarios.pipelines import Item
from verification.iam.cast import Cast, stage
from verification.iam.door import door
from verification.iam.play import (
    PATCH,
    PATIENCE_S,
    READ,
    WHY,
    WRITE,
    YES,
    drained,
    submit,
)
from verification.iam.used import Grant, unused


@pytest.fixture
async def cast(
    deployed: Emulator, environment_name: str, tmp_path: Path
) -> AsyncIterator[Cast]:
    """Return actors whose roles have the defaults of the template."""
    ours = door(deployed.endpoint, environment_name, OperatorsReadPayloads="false")
    async with ours.open() as url:
        with stage(url, environment_name, tmp_path):
            yield Cast(ours, deployed, environment_name, tmp_path)


async def test_each_actor_does_its_part_with_its_own_role(cast: Cast) -> None:
    await submit(cast, "small", [Item(n=0, calls=1), Item(n=1, trouble="permanent")])
    async with cast.worker() as scenario:
        await scenario.ended("small", PATIENCE_S)
    told = await cast.command(READ, "dlq", "show", "small", "1", "-o", "json")
    cast.drop("work-dlq", "not one of ours")
    async with cast.scenario("reconciler") as scenario, scenario.reconciler():
        await scenario.until(lambda: drained(cast), PATIENCE_S)
    await cast.command(WRITE, "dlq", "redrive", "--job", "small", *YES)

    assert [] == cast.failed
    assert [] == [*cast.door.strange]
    # Operators are not shown what was submitted unless their roles were given it.
    denied = {(c.actor, c.action, "/payload/" in c.resource) for c in cast.door.denied}
    assert {(READ, "s3:GetObject", True)} == denied
    assert (None, "tool.stock.none") == (
        told.document["payload"],
        told.document["error_code"],
    )


async def test_who_lacks_a_right_is_told_so_and_changes_nothing(cast: Cast) -> None:
    await submit(cast, "small", [Item(n=0)])
    before = await cast.command(READ, "jobs", "show", "small", "-o", "json")
    refused = await cast.command(READ, "jobs", "cancel", "small", *YES, code=2)
    patch = ("--job", "small", "--chunk", "0", *PATCH, *WHY)
    await cast.command(READ, "dlq", "redrive", *patch, "--dry-run", code=2)
    after = await cast.command(READ, "jobs", "show", "small", "-o", "json")

    assert [] == cast.failed
    assert "AccessDenied" in refused.stderr or "aws.access.denied" in refused.stderr
    assert before.document == after.document
    assert {"dynamodb:UpdateItem"} == {call.action for call in cast.door.denied}


async def test_a_payload_that_is_gone_is_a_dead_letter_to_who_may_not_list(
    cast: Cast,
) -> None:
    await submit(cast, "small", [Item(n=0)])
    s3 = cast.backstage("s3")
    bucket = f"piecework-{cast.env}-000000000000-us-east-1"
    prefix = "tenants/default/jobs/small/payload/"
    (pack,) = s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    s3.delete_object(Bucket=bucket, Key=pack["Key"])
    async with cast.worker() as scenario:
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
