"""Measure what a person sees of a job of 1,000,000 chunks: CPU, memory, requests.

python -m bench.large_job [--chunks 1000000] [--rounds 3]

A server has one job in the middle of its work and one that has ended. Their rows are
made when they are asked for, so that the server needs no gigabytes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.adapters.product import APP, ENV, TENANT, PieceworkAdapter
from bench.aws_server import resources
from bench.aws_server.router import AwsServer
from bench.budgets import BudgetResult
from bench.commands import PROGRAM
from bench.emulator import REGION, RunningAwsServer
from bench.environment import BenchEnvironment, kept_environment
from bench.processes import ROOT, FailedError, start, tail
from bench.workloads import Outcome
from piecework.aws.endpoint import Emulator
from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.runtime import EMBEDDED_ACCOUNT
from piecework.settings import Settings
from piecework.store.serialization import to_item
from piecework_orchestrator.embedded import server
from piecework_simulation.aws.dynamodb import DynamoDB
from piecework_simulation.aws_server.http import Connection

RUNNING, ENDED = "running", "ended"
#: Of the running job: the chunks that workers have drawn, as a share; a group before
#: them with a chunk that takes long; and the distance of dead chunks.
DRAWN, STRAGGLER, DEAD_EVERY = 0.6, 17, 20_011
BEGAN = 1_790_000_000.0
SHA256 = "ab" * 32
#: What the call of a chunk has used: tokens in and out, billionths of a dollar.
USED = {"paid": {"plain": [1, 100, 20, 5_000]}}
#: `ru_maxrss` of a child starts with its parent's peak, so the child tells its own.
PEAK = (
    "import atexit, os, re; atexit.register(lambda: open(os.environ['BENCH_PEAK'], 'w')"
    ".write(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]))\n"
)
KIB_IN_MIB = 1024


class Limits(NamedTuple):
    """What a view may take."""

    cpu_s: float = 0.5
    rss_mib: float = 60.0
    requests: float = 30.0


VIEWS: Mapping[str, Sequence[str]] = {
    "jobs_show_running": ("jobs", "show", RUNNING),
    "jobs_show_ended": ("jobs", "show", ENDED),
    "jobs_explain": ("jobs", "explain", RUNNING),
    "jobs_list": ("jobs", "list"),
    "chunks_list_first_page": ("chunks", "list", RUNNING),
}


# ── the jobs ──────────────────────────────────────────────────────────────────


class LargeJobs(DynamoDB):
    """A table whose rows of two jobs are made when a request asks for them."""

    chunks: int
    made: set[tuple[str, str]]

    def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a request, after the rows that it reads are there."""
        for table, pk, sk in places_of(request):
            if "#J#" not in pk or (table, pk) in self.made:
                continue
            letters = table.endswith("dead-letters")
            if sk.startswith(keys.CHUNK_PREFIX) and not letters:  # one of a batch
                ref = JobRef(TENANT, name_in(pk))
                rows = iter([chunk_row(ref, keys.chunk_number(sk), self.chunks)])
            else:
                self.made.add((table, pk))
                rows = rows_of(pk, self.chunks, letters=letters)
            for row in rows:
                item = {"TableName": table, "Item": to_item(row)}
                super().call("put_item", item)
        return super().call(operation, request)


def places_of(request: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return table and partition of what a read names; of a batch its sort keys too."""
    batch = request.get("RequestItems", {})
    if batch:
        return [
            (table, key["pk"]["S"], key["sk"]["S"])
            for table, asked in batch.items()
            for key in asked["Keys"]
        ]
    key = request.get("Key") or {}
    values = request.get("ExpressionAttributeValues") or {}
    named = key.get("pk") or values.get(":pk") or {}
    return [(str(request.get("TableName", "")), str(named.get("S", "")), "")]


def name_in(pk: str) -> str:
    """Return the job of a partition."""
    return pk.partition("#J#")[2].partition("#G#")[0]


def rows_of(pk: str, chunks: int, *, letters: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of a partition of a job."""
    name, _, number = pk.partition("#J#")[2].partition("#G#")
    ref, group = JobRef(TENANT, name), int(number or 0)
    if letters:
        yield from (letter_row(ref, n) for n in dead_chunks(name, chunks))
        return
    if group == 0:
        yield job_row(ref, chunks)
    first = group * keys.PARTITION_SIZE
    rows = [
        chunk_row(ref, number, chunks)
        for number in range(first, first + keys.partition_size(group, chunks))
    ]
    yield from rows
    ended = {row["chunk"] for row in rows if "ended_at" in row}
    if ended:
        yield {"pk": pk, "sk": keys.TALLY_SK, "v": 1, "ended_chunks": ended}
    block = keys.block_of(group)
    if group == block * keys.BLOCK_SIZE and keys.block_count(chunks) > 1:
        every = range(group, group + keys.block_size(block, chunks))
        full = {each for each in every if is_full(name, each, chunks)}
        if full:
            yield {"pk": pk, "sk": keys.BLOCK_SK, "v": 1, "full_groups": full}


def drawn(name: str, chunks: int) -> int:
    """Return how many chunks of a job were drawn."""
    return chunks if name == ENDED else int(chunks * DRAWN)


def runs(name: str, number: int, chunks: int) -> bool:
    """Return whether a chunk runs: the last ones that were drawn, and a straggler."""
    late = drawn(name, chunks) - 64 <= number < drawn(name, chunks)
    straggler = number == STRAGGLER * keys.PARTITION_SIZE
    return name == RUNNING and (late or straggler)


def is_full(name: str, group: int, chunks: int) -> bool:
    """Return whether all chunks of a group have ended."""
    first = group * keys.PARTITION_SIZE
    last = first + keys.partition_size(group, chunks)
    late = last > drawn(name, chunks) - 64
    return name == ENDED or not (late or group == STRAGGLER)


def dead_chunks(name: str, chunks: int) -> range:
    """Return the dead chunks of a job."""
    return range(5, drawn(name, chunks) - 64, DEAD_EVERY)


def job_row(ref: JobRef, chunks: int) -> dict[str, Any]:
    """Return the item of a job."""
    blocks = range(keys.block_count(chunks))
    groups = {
        b: range(b * keys.BLOCK_SIZE, b * keys.BLOCK_SIZE + keys.block_size(b, chunks))
        for b in blocks
    }
    full = {b for b in blocks if all(is_full(ref.job, g, chunks) for g in groups[b])}
    row = {
        "pk": ref.pk,
        "sk": keys.META_SK,
        "v": 1,
        "tenant": TENANT,
        "job": ref.job,
        "status": "RUNNING",
        "gen": 1,
        "chunks": chunks,
        "pipeline": "plain",
        "created_at": iso(BEGAN),
        "opened_at": iso(BEGAN),
        "sent_at": iso(BEGAN),
        "manifest": "m",
        "manifest_sha256": SHA256,
        "backlog_start": 64,
    }
    if full and len(blocks) > 1:
        row["full_blocks"] = full
    if ref.job == ENDED:
        dead = len(dead_chunks(ENDED, chunks))
        key = keys.certificate_key(TENANT, ENDED, 1, SHA256)
        outcomes = {"SUCCEEDED": chunks - dead, "DEAD": dead}
        row |= {"status": "PARTIAL", "finished_at": iso(BEGAN), "outcomes": outcomes}
        row |= {"certificate": key, "certificate_sha256": SHA256}
    return row


def chunk_row(ref: JobRef, number: int, chunks: int) -> dict[str, Any]:
    """Return the item of a chunk."""
    chunk = ref.chunk(number)
    began, took = BEGAN + number * 0.01, 0.5
    row: dict[str, Any] = {
        "pk": chunk.pk,
        "sk": chunk.sk,
        "v": 1,
        "tenant": TENANT,
        "job": ref.job,
        "chunk": number,
        "status": "PENDING",
        "gen": 1,
        "label": f"line {number}",
        "payload": f"{SHA256[:32]}/{number * 9}+9",
        "payload_sha256": SHA256,
        "fence": 0,
        "attempts": 0,
        "stage": "plain",
    }
    if number >= drawn(ref.job, chunks):
        return row
    row |= {
        "fence": 1,
        "attempts": 1,
        "claimed_at": iso(began),
        "started_at": iso(began),
    }
    row |= {"claim_token": SHA256[:32]}
    if runs(ref.job, number, chunks):
        until: dict[str, Any] = {"claim_expires_at": iso(began + 60)}
        until |= {"claimed_by": "worker-1", "claim_usage": USED}
        return row | {"status": "RUNNING", **until}
    row |= {"ended_at": iso(began + took), "ended_by": "worker-1"}
    row |= {"calls": 1, "call_usage": USED}
    if number in dead_chunks(ref.job, chunks):
        return row | {"status": "DEAD", "error_code": "user.stage.failed"}
    return row | {"status": "SUCCEEDED", "value": "1", "result_sha256": SHA256}


def letter_row(ref: JobRef, number: int) -> dict[str, Any]:
    """Return a dead letter."""
    return {
        "pk": ref.pk,
        "sk": keys.dead_letter_sk(number, 1),
        "v": 1,
        "gen": 1,
        "kind": "dead-letter",
        "state": "OPEN",
        "tenant": TENANT,
        "job": ref.job,
        "chunk": number,
        "stage": "plain",
        "error_code": "user.stage.failed",
        "error_class": "permanent",
        "error": "no",
        "error_history": "[]",
        "dead_lettered_at": iso(BEGAN),
        "compensation": "NOT_NEEDED",
    }


def certificate(chunks: int) -> bytes:
    """Return the certificate of the ended job, as `piecework.jobs.fan_in` writes it."""
    from piecework.jobs.fan_in import Certificate, encode

    dead = dead_chunks(ENDED, chunks)
    found = Certificate(
        job=ENDED,
        tenant=TENANT,
        pipeline="plain",
        gen=1,
        status="PARTIAL",
        finished_at=iso(BEGAN),
        chunks=chunks,
        manifest="m",
        manifest_sha256=SHA256,
        missing=[],
        outcomes={"SUCCEEDED": chunks - len(dead), "DEAD": len(dead)},
        error_codes={"user.stage.failed": len(dead)},
        calls={"paid": chunks, "cached": 0, "lost_claims": 0},
        results=dict.fromkeys(set(range(chunks)).difference(dead), SHA256),
    )
    return encode(found)


# ── the server ────────────────────────────────────────────────────────────────


async def serve(listener: socket.socket, chunks: int) -> None:
    """Answer all connections, for ever."""
    loop = asyncio.get_running_loop()
    aws_server = AwsServer(loop, lambda: BEGAN)
    model = LargeJobs(lambda: BEGAN, tables=())
    model.chunks, model.made = chunks, set()
    aws_server.use_tables(model)
    await loop.create_server(lambda: Connection(aws_server.serve), sock=listener)
    await asyncio.Event().wait()


def fill(aws: RunningAwsServer, chunks: int) -> None:
    """Create the resources, the list of jobs, the backlog and the certificate."""
    from piecework_orchestrator.embedded.deploy import make_client

    resources.into(aws.emulator, APP, ENV)
    settings = Settings(app=APP, env=ENV)
    table = make_client("dynamodb", aws.emulator)
    for name in (RUNNING, ENDED):
        row = {"pk": keys.jobs_pk(TENANT), "sk": f"{iso(BEGAN)}#{name}", "v": 1}
        row |= {"job": name, "pipeline": "plain"}
        table.put_item(TableName=settings.checkpoints_table, Item=to_item(row))
    backlog = {"pk": keys.ACTIVE_PK, "sk": keys.backlog_sk("", TENANT, RUNNING), "v": 1}
    backlog |= {"tenant": TENANT, "job": RUNNING, "gen": 1, "priority": "normal"}
    backlog |= {"next_chunk": drawn(RUNNING, chunks), "chunks": chunks}
    table.put_item(TableName=settings.checkpoints_table, Item=to_item(backlog))
    make_client("s3", aws.emulator).put_object(
        Bucket=settings.bucket(EMBEDDED_ACCOUNT, REGION),
        Key=keys.certificate_key(TENANT, ENDED, 1, SHA256),
        Body=certificate(chunks),
    )


@contextmanager
def run_server(folder: Path, chunks: int) -> Iterator[RunningAwsServer]:
    """Run the server with both jobs inside the context."""
    with socket.create_server((server.LOOPBACK, 0), backlog=64) as listener:
        port = int(listener.getsockname()[1])
        fd = listener.fileno()
        command = [sys.executable, "-m", "bench.large_job", "--fd", str(fd)]
        group = start(
            [*command, "--chunks", str(chunks)],
            kept_environment(),
            folder / "server.log",
            pass_fds=[fd],
        )
    try:
        endpoint = f"http://{server.LOOPBACK}:{port}"
        aws = RunningAwsServer(
            Emulator(endpoint, group.process.pid, REGION, "models"), "models"
        )
        fill(aws, chunks)
        yield aws
    finally:
        group.stop()


# ── the measurement ───────────────────────────────────────────────────────────


class Used(NamedTuple):
    """What a command used: seconds of CPU, MiB of memory, requests to AWS."""

    cpu_s: float
    rss_mib: float
    requests: float


def use_of(words: Sequence[str], aws: RunningAwsServer, log: Path) -> Used:
    """Run a command until it ends; return what it used.

    Raises:
        FailedError: It ended with another code than 0.
    """
    environ = {**kept_environment(), **aws.environment}
    environ |= {"PIECEWORK_APP": APP, "PIECEWORK_ENV": ENV}
    peak = log.with_name("peak")
    environ["BENCH_PEAK"] = str(peak)
    before = aws.counts()
    with log.open("ab") as sink:
        command = [sys.executable, "-c", PEAK + PROGRAM, *words]
        process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdout=sink, stderr=sink
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise FailedError(f"{words} ended with {process.returncode}:\n{tail(log)}")
    requests = aws.counts().since(before).requests
    cpu_s = used.ru_utime + used.ru_stime
    return Used(cpu_s, int(peak.read_text("ascii")) / KIB_IN_MIB, requests)


def measure_show(env: BenchEnvironment, adapter: PieceworkAdapter) -> Outcome:
    """Show the running job once; a server of its own has it."""
    del adapter
    with run_server(env.folder, len(env.config.tasks)) as aws:
        used = use_of(VIEWS["jobs_show_running"], aws, env.folder / "show.log")
    return Outcome({f"show_{name}": each for name, each in used._asdict().items()})


def measure(aws: RunningAwsServer, log: Path, rounds: int) -> None:
    """Print the figures of each view with their limits."""
    for name, words in VIEWS.items():
        found = [use_of(words, aws, log) for _ in range(rounds)]
        for what, limit in Limits()._asdict().items():
            least = min(getattr(each, what) for each in found)
            budget = BudgetResult(f"{name}_{what}", "<=", limit, least)
            sys.stdout.write(f"{budget.line}\n")
        sys.stdout.flush()


def main() -> int:
    """Measure once, or be the server; return 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.large_job")
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fd", type=int, default=-1, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.fd >= 0:
        with socket.socket(fileno=asked.fd) as listener:
            asyncio.run(serve(listener, asked.chunks))
        return 0
    with (
        tempfile.TemporaryDirectory() as made,
        run_server(Path(made), asked.chunks) as aws,
    ):
        log = Path(made) / "commands.log"
        measure(aws, log, asked.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
