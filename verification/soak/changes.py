"""The change log of the checkpoint table, read from its stream as it grows."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from boto3.dynamodb.types import Binary, TypeDeserializer

from piecework.aws.endpoint import Emulator
from piecework.domain import keys
from piecework_orchestrator.embedded.deploy import make_client
from verification.soak.record import Change, Item
from verification.soak.world import CHUNK_ENDED, JOB_ENDED

READ = TypeDeserializer().deserialize
#: Digits of a sequence number that are the milliseconds since 1970.
MILLISECONDS = 20
POLL_S = 0.2


@dataclass(slots=True)
class Changes:
    """The changes so far, and the state that they have led to."""

    streams: Any
    iterator: str
    log: Path
    all: list[Change] = field(default_factory=list)
    jobs: dict[str, Item] = field(default_factory=dict)
    chunks: dict[str, dict[int, Item]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    ended_once: set[tuple[str, int]] = field(default_factory=set)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def follow(self) -> None:
        """Read for ever."""
        while True:
            await self.catch_up()
            await asyncio.sleep(POLL_S)

    async def catch_up(self) -> None:
        """Read to the present end of the stream."""
        async with self.turn:
            await self._read_on()

    async def _read_on(self) -> None:
        while True:
            reply = await asyncio.to_thread(
                self.streams.get_records, ShardIterator=self.iterator, Limit=1000
            )
            self.iterator = reply["NextShardIterator"]
            fresh = [change(record["dynamodb"]) for record in reply["Records"]]
            if not fresh:
                return
            self.take(fresh)

    def take(self, fresh: list[Change]) -> None:
        """Note changes, on disk too."""
        with self.log.open("a") as log:
            log.writelines(json.dumps(asdict(c), default=plain) + "\n" for c in fresh)
        self.all += fresh
        for one in fresh:
            if one.kind == "META" and one.new is not None:
                self.jobs[one.job] = one.new
            if one.kind == "CHUNK" and one.new is not None:
                number = one.chunk or 0
                self.chunks[one.job][number] = one.new
                if one.new["status"] in CHUNK_ENDED and number != keys.JOIN_CHUNK:
                    self.ended_once.add((one.job, number))

    def held_by(self, worker: str) -> list[tuple[str, int]]:
        """Return the chunks in a worker's hands."""
        return [
            (job, number)
            for job, chunks in self.chunks.items()
            for number, item in chunks.items()
            if item.get("claimed_by") == worker and item["status"] == "RUNNING"
        ]

    def open_in(self, job: str) -> int:
        """Return how many chunks of a job have not ended."""
        chunks = self.chunks[job].values()
        return sum(item["status"] not in CHUNK_ENDED for item in chunks)

    def ended(self, jobs: Iterable[str]) -> bool:
        """Return whether all these jobs have ended."""
        return all(
            job in self.jobs and self.jobs[job]["status"] in JOB_ENDED for job in jobs
        )

    def statuses(self) -> Counter[str]:
        """Count the jobs by their status."""
        return Counter(str(item["status"]) for item in self.jobs.values())


def open_stream(emulator: Emulator, table: str, log: Path) -> Changes:
    """Let a table stream its changes from now on."""
    tables, streams = (
        make_client("dynamodb", emulator),
        make_client("dynamodbstreams", emulator),
    )
    wanted = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    tables.update_table(TableName=table, StreamSpecification=wanted)
    arn = tables.describe_table(TableName=table)["Table"]["LatestStreamArn"]
    described = streams.describe_stream(StreamArn=arn)["StreamDescription"]
    shard = streams.get_shard_iterator(
        StreamArn=arn,
        ShardId=described["Shards"][0]["ShardId"],
        ShardIteratorType="TRIM_HORIZON",
    )
    return Changes(streams, shard["ShardIterator"], log)


def change(record: dict[str, Any]) -> Change:
    """Read a record of the stream."""
    number = record["SequenceNumber"]
    image = record.get("NewImage")
    return Change(
        seq=int(number[MILLISECONDS:]),
        at=int(number[:MILLISECONDS]) / 1000,
        pk=record["Keys"]["pk"]["S"],
        sk=record["Keys"]["sk"]["S"],
        new=None if image is None else {k: plain(READ(v)) for k, v in image.items()},
    )


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case Binary():
            return b64encode(value.value).decode()
        case dict():
            return {name: plain(inner) for name, inner in value.items()}
        case set() | frozenset() | list():
            return [plain(inner) for inner in value]
    return value
