"""Print each line of the bill of a million chunks, by hand and as `jobs cost` says.

A worker runs some chunks on the AWS server of the bench, which counts. Then the
retention deletes the job, and that is counted, too. It fails if a line of more than 3 %
of the bill, or the sum, differs by more than 5 %.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from botocore.config import Config

from bench import emulator
from bench.adapters.product import OPEN
from bench.meter import OBSERVER_AGENT, size
from bench.processes import Group, run, start
from piecework.domain import keys
from piecework.domain.moments import moment
from piecework.domain.retention import DAY_S
from piecework_orchestrator.cost.prices import load_prices
from verification.million.by_hand import Counted, as_told, by_hand
from verification.million.provider import Provider, running

MODULE: Final = "verification.million.pipeline"
ENV: Final = "million"
TENANT, JOB, TABLE = "default", "counted", f"piecework-{ENV}-checkpoints"
#: Seconds of an answer, and chunks of a worker at once, as service.yaml has them.
LATENCY_S: Final = 0.5
AT_ONCE: Final = 16
#: Share of the bill from which a line counts, and the most that it may differ.
COUNTS: Final = 0.03
MOST: Final = 0.05
FORMS: Final = {"twenty": "20 calls", "nothing": "no call"}
#: Times as many chunks: rows that each job has once must not count.
TIMES: Final = {"twenty": 1, "nothing": 32}


async def measure(form: str, chunks: int, folder: Path) -> Mapping[str, list[float]]:
    """Run, bill and delete a job; return each line by hand and as told."""
    counted, bill = await run_form(form, chunks, folder)
    found, told = by_hand(counted, load_prices()), as_told(bill)
    return {name: [usd, told[name]] for name, usd in found.items()}


async def run_form(
    form: str, chunks: int, folder: Path
) -> tuple[Counted, dict[str, Any]]:
    """Run, bill and delete a job; return what was counted, and its bill."""
    async with running(LATENCY_S) as (provider, address):
        with emulator.run_server(folder, "models") as aws:
            aws.deploy("piecework", ENV)
            environ = aws.environment | {
                "PATH": "/usr/bin:/bin",
                "PIECEWORK_ENV": ENV,
                "PIECEWORK_MAX_CHUNKS": str(AT_ONCE),
                "MILLION_PROVIDER": address,
            }
            site = Site(environ, folder, aws)
            counted, bill = await asyncio.to_thread(site.counted, form, chunks)
    return replace(counted, **sent_by(provider)), bill


def sent_by(provider: Provider) -> dict[str, Any]:
    """Return what the provider received."""
    return {"sent": provider.received, "calls": provider.calls}


class Site:
    """A deployment on the AWS server, and its processes."""

    def __init__(
        self, environ: Mapping[str, str], folder: Path, aws: emulator.RunningAwsServer
    ) -> None:
        self.environ, self.folder, self.aws = environ, folder, aws
        self.observer = observer(aws.emulator.endpoint)

    def counted(self, form: str, chunks: int) -> tuple[Counted, dict[str, Any]]:
        """Run a job, read its bill, and delete it; return all counts."""
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(f'{{"n":{n}}}\n' for n in range(chunks)), "ascii")
        start_counts = self.aws.counts()
        target = f"{MODULE}:{form}"
        self.command("submit", target, str(rows), "--job-id", JOB)
        log = self.folder / "worker.log"
        worker = [sys.executable, "-m", "piecework_worker", "--pipelines", MODULE]
        group = start([*worker, "--no-reconcile"], self.environ, log)
        try:
            wait(group, lambda: "worker.started" in log.read_text("utf-8"))
            began = time.monotonic()
            wait(group, lambda: self.status() not in OPEN)
            busy_s = time.monotonic() - began
            ran = self.aws.counts().since(start_counts)
        finally:
            group.stop()  # it writes its last counts
        text = log.read_text("utf-8")
        bill = json.loads(self.command("jobs", "cost", JOB, "-o", "json"))
        found, row_days = self.rows(), self.row_days()
        before = self.aws.counts()
        self.program("verification.million.later", str(float(bill["kept_days"]) + 0.1))
        deletion = self.aws.counts().since(before)
        before = self.aws.counts()
        reason = ("--reason", "counted", "--yes")
        self.command("jobs", "delete", JOB, *reason)
        at_once = self.aws.counts().since(before)
        return Counted(
            chunks=chunks,
            run=ran,
            deletion=deletion,
            at_once=at_once,
            rows=tuple(found),
            objects=int(ran.rows["s3.Put"].bytes_in),
            busy_s=busy_s,
            sent=0,
            calls=0,
            log=(text.count("\n"), len(text)),
            days=float(bill["kept_days"]),
            row_days=row_days,
        ), bill

    def command(self, *words: str) -> str:
        """Run a command of Piecework."""
        return self.program("piecework_orchestrator", *words)

    def program(self, module: str, *words: str) -> str:
        """Run a module."""
        command = [sys.executable, "-m", module, *words]
        return run(command, self.environ, self.folder / "commands.log")

    def status(self) -> str:
        """Return the job's status."""
        return str(self.job().get("status", {}).get("S", "SUBMITTING"))

    def job(self) -> dict[str, Any]:
        """Return the job's own row."""
        key = {"pk": {"S": keys.job_pk(TENANT, JOB)}, "sk": {"S": keys.META_SK}}
        found: dict[str, Any] = self.observer.get_item(TableName=TABLE, Key=key)
        item: dict[str, Any] = found.get("Item", {})
        return item

    def row_days(self) -> float:
        """Return the days from the end of the job to the time of its rows."""
        job = self.job()
        kept = moment(job["rows_until"]["S"]) - moment(job["finished_at"]["S"])
        return kept / DAY_S

    def rows(self) -> list[int]:
        """Return the sizes of the rows of the job."""
        pages = self.observer.get_paginator("scan").paginate(TableName=TABLE)
        return [
            size(item)
            for page in pages
            for item in page["Items"]
            if item["pk"]["S"].startswith(keys.job_pk(TENANT, JOB))
        ]


def wait(group: Group, until: Callable[[], bool]) -> None:
    """Wait while a process works.

    Raises:
        FailedError: It has ended by itself.
    """
    while not until():
        group.check()
        time.sleep(0.2)


def observer(endpoint: str) -> Any:
    """Return a client of the tables that is not counted."""
    import boto3

    config = Config(user_agent=OBSERVER_AGENT.decode(), proxies={})
    session = boto3.Session("test", "test", region_name=emulator.REGION)
    return session.client("dynamodb", endpoint_url=endpoint, config=config)


def print_lines(form: str, lines: Mapping[str, list[float]]) -> bool:
    """Print the lines of a form; return whether they agree."""
    hand, told = (sum(line[n] for line in lines.values()) for n in (0, 1))
    agrees = abs(told - hand) <= MOST * hand
    sys.stdout.write(f"\na million chunks, {FORMS[form]} each\n")
    sys.stdout.write(f"{'USD':24}{'by hand':>10}{'jobs cost':>11}{'differs':>9}\n")
    for name, (by, said) in [*lines.items(), ("sum", [hand, told])]:
        if not by and not said:
            continue
        differs = abs(said - by) / (by or said)
        sys.stdout.write(f"{name:24}{by:10.3f}{said:11.3f}{differs:9.1%}\n")
        agrees = agrees and (by < COUNTS * hand or differs <= MOST)
    return agrees


def main() -> int:
    """Be the command line."""
    parser = argparse.ArgumentParser(prog="python -m verification.million")
    parser.add_argument("--chunks", type=int, default=64, help="chunks with calls")
    parser.add_argument("--only", choices=sorted(FORMS), help="only this form")
    args = parser.parse_args()
    agrees = True
    for form in FORMS if args.only is None else (args.only,):
        with TemporaryDirectory(prefix="piecework-million-") as made:
            lines = asyncio.run(measure(form, args.chunks * TIMES[form], Path(made)))
        agrees = print_lines(form, lines) and agrees
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
