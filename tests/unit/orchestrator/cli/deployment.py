"""A deployment in memory: rows as the stores write them, and a runtime that reads."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import signature
from types import SimpleNamespace
from typing import Any

from typer.testing import CliRunner

from piecework.aws.endpoint import Endpoint
from piecework.cost.meter import CostMeter
from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework.domain.rows import Row
from piecework.domain.schema import require_known
from piecework.errors import StateError
from piecework.settings import Settings
from piecework.store.completion import Tallies
from piecework.store.dead_letters import Closing
from piecework.store.job_transitions import JobTransitions
from piecework.store.jobs import Jobs
from piecework_orchestrator.cli.app import app
from piecework_orchestrator.dead_letters.redrive import RedriveRequest

#: click before 8.2 joins both streams unless it is told otherwise.
JOINS = "mix_stderr" in signature(CliRunner).parameters
OPTIONS: dict[str, Any] = {"mix_stderr": False} if JOINS else {}
RUNNER = CliRunner(**OPTIONS)

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
CREATED = "2027-01-15T07:58:00.000Z"
SETTLED = "2027-01-15T07:59:30.000Z"


@dataclass
class Rows:
    """A table in memory with the reads that commands use."""

    rows: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def add(self, pk: str, sk: str, **item: Any) -> None:
        self.rows[pk, sk] = {"pk": pk, "sk": sk, **item}

    async def get(self, pk: str, sk: str) -> dict[str, Any] | None:
        row = self.rows.get((pk, sk))
        return None if row is None else require_known(row)

    async def get_many(
        self, places: Iterable[tuple[str, str]], *, any_version: bool = False
    ) -> dict[tuple[str, str], dict[str, Any]]:
        return {place: self.rows[place] for place in places if place in self.rows}

    async def query(
        self,
        pk: str,
        prefix: str = "",
        *,
        backwards: bool = False,
        any_version: bool = False,
    ) -> AsyncIterator[dict[str, Any]]:
        for place in sorted(self.rows, reverse=backwards):
            if place[0] == pk and place[1].startswith(prefix):
                yield self.rows[place]

    async def first(
        self, pk: str, count: int, prefix: str = "", **_: str
    ) -> list[dict[str, Any]]:
        found = [row async for row in self.query(pk)]
        return [row for row in found if row["sk"].startswith(prefix)][:count]

    async def scan(self) -> AsyncIterator[dict[str, Any]]:
        for row in self.rows.values():
            yield row


@dataclass
class Bucket:
    """A bucket in memory."""

    stored: dict[str, bytes] = field(default_factory=dict)
    client: None = None

    async def get(
        self, key: str, *, start: int = 0, length: int = 0, most: int = 0
    ) -> bytes:
        if key not in self.stored:
            message = f"The object {key} is gone."
            raise StateError(message, code="runtime.object.missing")
        return self.stored[key][start : start + length if length else None]

    async def blocks(self, key: str) -> AsyncIterator[bytes]:
        content = self.stored[key]
        for start in range(0, len(content), 4):
            yield content[start : start + 4]

    async def get_value(self, row: Row, prefix: str) -> str:
        return str(row.item["value"])

    async def names(self, prefix: str) -> AsyncIterator[str]:
        for name in sorted(self.stored):
            if name.startswith(prefix):
                yield name


@dataclass
class Deployment:
    """Tables and a bucket in memory, methods that fill them, and a command line.

    A redrive and a discard are recorded, and change nothing.
    """

    table: Rows = field(default_factory=Rows)
    letters: Rows = field(default_factory=Rows)
    bucket: Bucket = field(default_factory=Bucket)
    redriven: list[RedriveRequest] = field(default_factory=list)
    discarded: list[tuple[str, list[int], Closing]] = field(default_factory=list)

    def run(self, *words: str, stdin: str = "") -> Any:
        """Run a command; the answer has `exit_code`, `stdout` and `stderr`."""
        return run_command_line(*words, stdin=stdin)

    def document(self, *words: str) -> Any:
        """Return the JSON that a command prints."""
        return json.loads(self.run(*words, "-o", "json").stdout)

    async def redrive(self, _: object, one: RedriveRequest) -> tuple[int, int]:
        """Replace `closing.redrive`."""
        self.redriven.append(one)
        return len(one.letters), 2

    async def discard(
        self, _: object, ref: JobRef, letters: Sequence[Any], closing: Closing
    ) -> int:
        """Replace `closing.discard`."""
        chunks = [letter.chunk for letter in letters]
        self.discarded.append((ref.job, chunks, closing))
        return len(chunks)

    def job(
        self, name: str, status: str, chunks: int, created: str = CREATED, **item: Any
    ) -> None:
        """Add a job."""
        ref = JobRef("default", name)
        facts = {"gen": 1, "pipeline": "toy", "created_at": created, "job": name}
        facts |= {"sent_at": created} if status == "RUNNING" else {}
        manifest = {"manifest": "m.jsonl", "manifest_sha256": "ab" * 32}
        self.table.add(
            ref.pk,
            keys.META_SK,
            status=status,
            chunks=chunks,
            **facts | manifest | item,
        )
        listed = keys.jobs_pk("default")
        pipeline = item.get("pipeline", "toy")
        self.table.add(listed, f"{created}#{name}", job=name, pipeline=pipeline)

    def chunk(self, job: str, number: int, status: str, **item: Any) -> None:
        """Add a chunk; for a succeeded chunk use `succeeded`, which adds its result."""
        ref = JobRef("default", job).chunk(number)
        facts = {"status": status, "gen": 1, "fence": 1, "attempts": 1, "chunk": number}
        facts |= {"label": f"chunk {number}", "stage": "shout", "ended_at": SETTLED}
        self.table.add(ref.pk, ref.sk, **facts | item)

    def succeeded(self, job: str, number: int, value: Any) -> None:
        """Add a chunk with its result."""
        text = json.dumps(value)
        sha256 = keys.sha256(text.encode())
        self.chunk(job, number, "SUCCEEDED", result_sha256=sha256)
        ref = JobRef("default", job).chunk(number)
        self.table.add(ref.pk, keys.result_sk(number), value=text, stage="shout")

    def letter(self, job: str, number: int, **item: Any) -> None:
        """Add a dead letter, and its payload."""
        ref = JobRef("default", job).chunk(number)
        payload = json.dumps({"text": f"line {number}"}).encode()
        self.bucket.stored[f"tenants/default/jobs/{job}/payload/p{number}.jsonl"] = (
            payload
        )
        trail = [{"attempt": 1, "at": SETTLED, "worker": "w1", "code": "toy.line.bad"}]
        facts = {
            "kind": "dead-letter",
            "state": "OPEN",
            "tenant": "default",
            "job": job,
            "chunk": number,
            "gen": 1,
            "stage": "shout",
            "error_code": "toy.line.bad",
            "error_class": "permanent",
            "error": "The line is bad.",
            "attempts": 1,
            "compensation": "NOT_NEEDED",
            "error_history": json.dumps(trail),
            "payload": f"p{number}/0+{len(payload)}",
            "payload_sha256": keys.sha256(payload),
            "dead_lettered_at": SETTLED,
        }
        self.letters.add(ref.of.pk, keys.dead_letter_sk(number, 1), **facts | item)

    def certificate(self, job: str, **facts: Any) -> dict[str, str]:
        """Store a certificate; return its attributes for the job's item."""
        content = json.dumps({"job": job, "join_error": "", **facts}).encode()
        key = f"{keys.object_prefix('default', job)}/certificate/1.json"
        self.bucket.stored[key] = content
        return {
            "certificate": key,
            "certificate_sha256": keys.sha256(content),
        }

    def runtime(self, settings: Settings) -> Any:
        """Return a substitute for `piecework.runtime.Runtime`."""
        table: Any = self.table
        return SimpleNamespace(
            settings=settings,
            endpoint=Endpoint("http://127.0.0.1:4566", "embedded", "us-east-1"),
            table=table,
            dead_letters=self.letters,
            objects=self.bucket,
            jobs=Jobs(table, lambda: NOW),
            transitions=JobTransitions(table, lambda: NOW),
            tallies=Tallies(table),
            clock=lambda: NOW,
            rng=random.Random(1),
            identity="",
            cost=CostMeter(),
        )

    @asynccontextmanager
    async def connect(self, settings: Settings, **_: Any) -> AsyncIterator[Any]:
        """Replace `piecework.runtime.connect`."""
        yield self.runtime(settings)


def run_command_line(*words: str, stdin: str = "") -> Any:
    """Run a command line in this process."""
    return RUNNER.invoke(app, list(words), input=stdin)
