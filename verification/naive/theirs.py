"""Run source 004's design in a world: its queue, its workers, and its records."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from piecework_simulation.aws.dynamodb import Change
from piecework_simulation.engine.network import open_client
from piecework_simulation.engine.process import Process
from piecework_simulation.engine.world import BUCKET, World
from piecework_simulation.provider import ProviderError
from verification.naive.design import JOB, SLOTS, Account
from verification.naive.review import CHUNKS, Clause
from verification.naive.source004.orchestrator import NotSentError, submit
from verification.naive.source004.records import Records
from verification.naive.source004.worker import MOST_RECEIVES, VISIBILITY_S, Worker

#: As for Piecework: maximum seconds until a dead worker is replaced.
RESTART_S = 8.0
DLQ = "source004-dlq"
DLQ_RETENTION_S = 14 * 86_400.0
FAILURES = (ClientError, BotoCoreError, ProviderError, TimeoutError, ConnectionError)
#: The causes of a missing chunk.
OWN_CLAIM = "its owner lost the reply to its claim, and left it"
OTHERS_CLAIM = "a worker deleted its message, and its owner died"
UNSENT = "the orchestrator died before it was sent"
LOST = "the queue lost its message"


@dataclass(slots=True)
class Source004Design:
    """Source 004's design in a simulated world."""

    world: World
    loser_deletes: bool = True
    url: str = field(init=False)
    fleet: dict[Process, Worker] = field(default_factory=dict)
    submitters: list[Process] = field(default_factory=list)
    started: int = 0
    job: dict[str, Any] = field(default_factory=dict)
    chunks: dict[int, dict[str, Any]] = field(default_factory=dict)
    completed: Counter[int] = field(default_factory=Counter)
    thrown_away: dict[int, str] = field(default_factory=dict)
    begun: set[tuple[int, str]] = field(default_factory=set)
    submitted: str = ""
    unexpected: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        sqs = self.world.sqs
        sqs.create_queue(DLQ, retention_s=DLQ_RETENTION_S)
        self.url = sqs.create_queue(
            "source004", visibility_s=VISIBILITY_S, redrive=(DLQ, MOST_RECEIVES)
        )
        sqs.on_delete = self.deleted

    def start(self) -> None:
        for _ in range(SLOTS):
            self.worker()

    def worker(self) -> None:
        world = self.world
        process = world.process(self.name("worker"))
        clients = (
            open_client(world, "sqs", world.sqs, process),
            open_client(world, "s3", world.s3, process),
        )
        worker = Worker(
            process.name,
            self.records(process),
            *clients,
            self.url,
            BUCKET,
            self.failed,
            self.loser_deletes,
        )
        self.fleet[process] = worker

        def again() -> None:
            del self.fleet[process]
            delay = world.rng.random() * RESTART_S
            world.loop.call_later(delay, self.worker, context=world.context)

        process.on_death = again
        world.start(process, worker.run())

    def records(self, process: Process) -> Records:
        client = open_client(self.world, "dynamodb", self.world.dynamodb, process)
        table = self.world.settings.checkpoints_table
        return Records(client, table, lambda: self.world.now() + process.offset)

    def name(self, role: str) -> str:
        self.started += 1
        return f"{role}-{self.started}"

    def workers(self) -> Sequence[Process]:
        return [p for p in self.fleet if not p.dead]

    async def submit(self) -> str:
        process = self.world.process(self.name("submit"), mortal=False)
        self.submitters.append(process)
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        sqs = open_client(self.world, "sqs", self.world.sqs, process)
        payloads = [Clause(n=n).model_dump_json() for n in range(CHUNKS)]

        async def act() -> None:
            try:
                await submit(self.records(process), sqs, self.url, JOB, payloads)
                said = "done"
            except (ClientError, BotoCoreError, NotSentError) as error:
                said = repr(error)
            outcome.set_result(said)

        def died() -> None:
            if not outcome.done():
                outcome.set_result("died")

        process.on_death = died
        self.world.start(process, act())
        self.submitted = await outcome
        return self.submitted

    def submitter(self) -> Process:
        return self.submitters[-1]

    def check_write(self, changes: Sequence[Change]) -> None:
        for change in changes:
            assert change.new is not None
            kind, _, number = change.sk.partition("#")
            if kind == "JOB":
                self.job = change.new
            elif kind == "CHECKPOINT":
                chunk, _, _ = number.partition("#")
                self.begun.add((int(chunk), change.new["claimed_by"]["S"]))
            elif kind == "CHUNK":
                self.chunks[int(number)] = change.new
                # The SDK's second attempt of the same write has the same result.
                at = change.new.get("completed_at")
                if at is not None and (change.old or {}).get("completed_at") != at:
                    self.completed[int(number)] += 1

    def deleted(self, url: str, body: str, _: float) -> None:
        """Record the claim's owner when an unfinished chunk's message was deleted."""
        chunk = json.loads(body)["chunk"]
        if url == self.url and not self.completed[chunk]:
            self.thrown_away[chunk] = self.chunks[chunk]["claimed_by"]["S"]

    def known(self) -> bool:
        return bool(self.job)

    def over(self) -> bool:
        in_progress = any(worker.in_progress for worker in self.fleet.values())
        return not in_progress and self.world.sqs.next_at(self.url) is None

    def completions(self) -> int:
        return sum(times > 1 for times in self.completed.values())

    def account(self) -> Account:
        results = frozenset(n for n in range(CHUNKS) if self.has_result(n))
        status = self.job["status"]["S"] if self.job else ""
        return Account(
            results,
            self.dead_letters() - results,
            status in {"completed", "cancelled"},
            whole=status == "completed",
        )

    def why_missing(self, chunk: int) -> str:
        owner = self.thrown_away.get(chunk)
        if owner is not None:
            return OTHERS_CLAIM if (chunk, owner) in self.begun else OWN_CLAIM
        return UNSENT if self.submitted == "died" else LOST

    def has_result(self, chunk: int) -> bool:
        name = f"results/{JOB}/{chunk}.json"
        if not self.completed[chunk]:
            return False
        try:
            self.world.s3.call("head_object", {"Bucket": BUCKET, "Key": name})
        except ClientError:
            return False
        return True

    def dead_letters(self) -> frozenset[int]:
        """Return the chunks with a message in the dead-letter queue."""
        messages = self.world.sqs._queues[DLQ].messages.values()
        return frozenset(json.loads(m.body)["chunk"] for m in messages)

    def errors(self) -> Sequence[str]:
        return self.unexpected

    def failed(self, error: Exception) -> None:
        """Record an error that indicates a bug in the fixture."""
        if not isinstance(error, FAILURES):
            self.unexpected.append(repr(error))
