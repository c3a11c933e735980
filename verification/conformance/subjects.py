"""Start the subjects: the model, the emulators and, if requested, AWS."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import boto3
from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession

from verification.conformance.models import Model
from verification.conformance.probe import Probe, answer
from verification.conformance.subject import Subject, fresh

__all__ = ["Model", "Subject", "ask_all", "clients", "fresh", "make_table"]

#: Read before the tests remove the developer's AWS from the environment.
ENDPOINT = os.environ.get("PIECEWORK_CONFORMANCE_ENDPOINT", "")
AMBIENT = boto3.Session() if ENDPOINT == "aws" else None

SUBJECTS = ("model", "ministack", "moto", "endpoint")
REGION = "us-east-1"
SERVICES = ("dynamodb", "sqs", "s3")
AT_ONCE = 12


async def ask_all(
    name: str, probes: Sequence[Probe], endpoint: str = ""
) -> dict[str, str]:
    """Return a subject's answers; each probe has its own subject."""
    if name == "model":
        return {asked.name: await answer(asked, Model()) for asked in probes}
    turn = asyncio.Semaphore(AT_ONCE)
    async with clients(name, endpoint) as opened:

        async def ask(asked: Probe) -> str:
            async with turn, prepared(name, opened, asked.service) as subject:
                return await answer(asked, subject)

        answers = await asyncio.gather(*map(ask, probes))
    return dict(zip((asked.name for asked in probes), answers, strict=True))


class Server(Subject):
    """A server that speaks AWS's protocols."""

    async def queue(
        self, *, redrive: tuple[str, int] | None = None, **attributes: str
    ) -> str:
        if redrive is not None:
            url, most = redrive
            reply = await self.sqs.get_queue_attributes(
                QueueUrl=url, AttributeNames=["QueueArn"]
            )
            arn = reply["Attributes"]["QueueArn"]
            attributes["RedrivePolicy"] = (
                f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": {most}}}'
            )
        made = await self.sqs.create_queue(
            QueueName=fresh("queue"), Attributes=attributes
        )
        return str(made["QueueUrl"])

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@asynccontextmanager
async def clients(name: str, endpoint: str) -> AsyncIterator[list[Any]]:
    """Open a server's clients, without retries."""
    where: dict[str, Any] = {
        "endpoint_url": endpoint,
        "region_name": REGION,
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
    }
    if AMBIENT is not None and name == "endpoint":
        keys = AMBIENT.get_credentials().get_frozen_credentials()
        where = {
            "region_name": AMBIENT.region_name,
            "aws_access_key_id": keys.access_key,
            "aws_secret_access_key": keys.secret_key,
            "aws_session_token": keys.token,
        }
    config = AioConfig(
        retries={"total_max_attempts": 1},
        max_pool_connections=64,
        proxies={},
        s3={"addressing_style": "path"},
    )
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                AioSession().create_client(service, config=config, **where)
            )
            for service in SERVICES
        ]


@asynccontextmanager
async def prepared(
    name: str, opened: Iterable[Any], service: str
) -> AsyncIterator[Subject]:
    """Create the resources of a service's probes, and remove them afterwards."""
    subject = Server(name, *opened)
    if service == "dynamodb":
        await make_table(subject.dynamodb, subject.table)
    if service == "s3":
        await make_bucket(subject.s3, subject.bucket)
    yield subject
    if service == "dynamodb" and name == "endpoint":
        await subject.dynamodb.delete_table(TableName=subject.table)


async def make_table(client: Any, table: str) -> None:
    """Make a table with piecework's keys."""
    names = {"pk": "HASH", "sk": "RANGE"}
    await client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in names
        ],
        KeySchema=[{"AttributeName": n, "KeyType": kind} for n, kind in names.items()],
    )
    await client.get_waiter("table_exists").wait(
        TableName=table, WaiterConfig={"Delay": 2}
    )


async def make_bucket(client: Any, bucket: str) -> None:
    """Make a bucket where the client is."""
    where = {}
    if client.meta.region_name != REGION:
        place = {"LocationConstraint": client.meta.region_name}
        where = {"CreateBucketConfiguration": place}
    await client.create_bucket(Bucket=bucket, **where)
