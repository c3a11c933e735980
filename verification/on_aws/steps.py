"""The steps of a run, each by the commands that a person types."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.processes import FailedError, Group, run, start
from verification.on_aws.account import Account

REVIEW: Final = "piecework_examples.contract_review"
CONTRACT: Final = (
    "examples/piecework_examples/contract_review/contracts/msa-northwind.md"
)
WAITING: Final = "verification.on_aws.pipeline"
LARGER: Final = "anthropic.large-review-v1:0"
#: A short lease, so that a takeover is quick. The deployment's own is 60 s.
SHORT: Final = {"PIECEWORK_LEASE_S": "10", "PIECEWORK_VISIBILITY_S": "15"}
#: Seconds that a step waits for a state; on a slow network, too.
PATIENCE_S: Final = 900.0
#: The most of the units that AWS counted by which `jobs cost` may differ.
DIFFERS: Final = 0.05
#: Seconds until CloudWatch has counted everything.
COUNTED_S: Final = 420.0


@dataclass(slots=True)
class Run:
    """The steps, and what they found.

    Attributes:
        chunks: Of the large submit.
        image: The image of the service; empty: only the data stack is deployed, and
            the workers are processes of this machine.
        emulated: Whether the account is an emulator.
        jobs: The jobs of the run.
    """

    account: Account
    folder: Path
    chunks: int
    image: str = ""
    emulated: bool = False
    jobs: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.time)
    _groups: list[Group] = field(default_factory=list)

    def steps(self) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        """Yield the name and the act of each step, in order."""
        yield "deploy", self.deploy
        yield "conformance", self.conformance
        yield "demo", self.demo
        yield "submit", self.submit_and_cancel
        yield "bill", self.bill

    # ── the steps ─────────────────────────────────────────────────────────────

    def deploy(self) -> dict[str, Any]:
        """Deploy by the command; without an image only the data stack."""
        words = ["--stack", "data", "--parameter", "Protect=false"]
        if self.image:
            words = ["--image", self.image, "--pipelines", REVIEW]
        told = self.command("infra", "deploy", "--yes", *words, "-o", "json")
        self.command("doctor")
        return {"stacks": json.loads(told)}

    def conformance(self) -> dict[str, Any]:
        """Put the probes to AWS; here to the emulator, whose differences are known."""
        subject = "ministack" if self.emulated else "endpoint"
        asked = {"PIECEWORK_CONFORMANCE_PREFIX": self.account.prefix}
        if not self.emulated:
            asked["PIECEWORK_CONFORMANCE_ENDPOINT"] = "aws"
        words = ("verification.conformance", "--only", subject)
        told = self.program(*words, **asked).splitlines()
        figures = dict(part.split("=") for part in told[-1].split())
        return {**figures, "differences_seen": told[:-2]}

    def demo(self) -> dict[str, Any]:
        """Review a contract, kill a worker, redrive the dead letter after a fix."""
        job = self.job("northwind")
        with self.services() as environ:
            small = [self.worker(n, REVIEW, environ) for n in (1, 2)]
            self.command("submit", f"{REVIEW}:pipeline", CONTRACT, "--job-id", job)
            self.until(lambda: self.succeeded(job) >= 2, small)
            small[1].kill()
            self.until(lambda: self.facts(job)["status"] == "PARTIAL", small[:1])
            first = self.facts(job)
            letters = json.loads(
                self.command("dlq", "list", "--job", job, "-o", "json")
            )
            small[0].stop()
            fixed = self.worker(3, REVIEW, {**environ, "REVIEW_MODEL_ID": LARGER})
            redrive = ("dlq", "redrive", "--job", job, "--reason", "a larger model")
            self.command(*redrive, "--yes")
            self.until(lambda: self.facts(job)["status"] == "SUCCEEDED", [fixed])
            fixed.stop()
        return {
            "chunks": first["chunks"],
            "dead": len(letters),
            "killed_workers": 1,
            "after_redrive": self.facts(job)["counts"],
        }

    def submit_and_cancel(self) -> dict[str, Any]:
        """Submit many chunks by eight writers, let a worker begin, and cancel."""
        job, rows = self.job("many"), self.folder / "rows.jsonl"
        rows.write_text("".join(f'{{"n":{n}}}\n' for n in range(self.chunks)), "ascii")
        began = time.monotonic()
        self.command("submit", f"{WAITING}:waiting", str(rows), "--job-id", job)
        submitted = time.monotonic() - began
        worker = self.worker(4, WAITING, {})
        self.until(lambda: self.succeeded(job) > 0, [worker])
        began = time.monotonic()
        self.command("jobs", "cancel", job, "--reason", "it is a test", "--yes")
        self.until(lambda: self.facts(job)["status"] == "CANCELLED", [worker])
        quiet = time.monotonic() - began
        worker.stop()
        counts = self.facts(job)["counts"]
        if sum(counts.values()) != self.chunks:
            raise FailedError(f"Of {self.chunks} chunks {counts} have an end.")
        return {
            "chunks": self.chunks,
            "submit_s": round(submitted, 1),
            "chunks_a_second": round(self.chunks / submitted),
            "cancel_s": round(quiet, 1),
            "counts": counts,
        }

    def bill(self) -> dict[str, Any]:
        """Compare the write units of `jobs cost` with those that AWS counted."""
        bills = {job: self.bill_of(job) for job in self.jobs}
        told = sum(
            line["count"]
            for bill in bills.values()
            for line in bill["lines"]
            if line["unit"] == "write units" and line["item"] != "deletion"
        )
        found: dict[str, Any] = {
            "usd": round(sum(bill["aws_usd"] for bill in bills.values()), 6),
            "write_units_by_jobs_cost": round(told, 1),
        }
        counted = None if self.emulated else self.counted()
        if counted is None:
            return {**found, "write_units_by_aws": "not counted"}
        differs = abs(told - counted) / counted
        if differs > DIFFERS:
            message = f"`jobs cost` says {told:.0f} write units, AWS {counted:.0f}."
            raise FailedError(message)
        return {
            **found,
            "write_units_by_aws": round(counted, 1),
            "differs": round(differs, 4),
        }

    def counted(self) -> float | None:
        """Wait until CloudWatch has counted everything; return its write units."""
        time.sleep(COUNTED_S)
        return self.account.written_units(self.began)

    # ── removal ───────────────────────────────────────────────────────────────

    def stop(self) -> None:
        """Stop the processes of all steps."""
        for group in self._groups:
            with suppress(Exception):
                group.kill()

    def remove(self) -> list[str]:
        """Remove everything; return what is left."""
        self.stop()
        for job in self.jobs:
            with suppress(FailedError):  # it has ended; or the tables go with it
                self.command("jobs", "cancel", job, "--reason", "the end", "--yes")
        problems = []
        confirmed = ("--with-data", "--yes", "--confirm-env", self.account.env)
        only = () if self.image else ("--stack", "data")
        try:
            self.command("infra", "destroy", *only, *confirmed)
        except FailedError as error:
            problems.append(f"infra destroy: {error}")
        self.account.remove_rest()
        left = self.account.wait_until_gone()
        return [*left, *(problems if left else [])]

    def spent(self) -> float:
        """Return what the jobs have cost so far, in dollars of AWS."""
        usd = 0.0
        for job in self.jobs:
            with suppress(FailedError):  # its submit has failed
                usd += float(self.bill_of(job)["aws_usd"])
        return usd

    # ── the commands ──────────────────────────────────────────────────────────

    def job(self, name: str) -> str:
        """Return the id of a job, and note it."""
        self.jobs.append(name)
        return name

    def bill_of(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.command("jobs", "cost", job, "-o", "json")
        )
        return found

    def facts(self, job: str) -> dict[str, Any]:
        """Return the document of a job."""
        found: dict[str, Any] = json.loads(
            self.command("jobs", "show", job, "-o", "json")
        )
        return found

    def succeeded(self, job: str) -> int:
        """Return how many chunks have a result."""
        return int(self.facts(job)["counts"].get("SUCCEEDED", 0))

    def command(self, *words: str) -> str:
        """Run a command of Piecework; return what it prints."""
        return self.program("piecework_orchestrator", *words)

    def program(self, module: str, *words: str, **more: str) -> str:
        environ = {**self.account.environ, **more}
        line = [sys.executable, "-m", module, *words]
        return run(line, environ, self.folder / "commands.log")

    def worker(self, number: int, pipelines: str, environ: dict[str, str]) -> Group:
        """Start a worker on this machine, with its reconciler."""
        log = self.folder / f"worker-{number}.log"
        words = [sys.executable, "-m", "piecework_worker", "--pipelines", pipelines]
        whole = {**self.account.environ, **SHORT, **environ}
        group = start(words, whole, log)
        self._groups.append(group)
        return group

    @contextmanager
    def services(self) -> Iterator[dict[str, str]]:
        """Run the services of the demo: a model of Bedrock, and the add-in."""
        log = self.folder / "services.log"
        words = ("--latency", "1", "--fault-rate", "0.05")
        command = [sys.executable, "-m", f"{REVIEW}.services", *words]
        group = start(command, self.account.environ, log)
        self._groups.append(group)
        where = "http://127.0.0.1:8765"
        try:
            yield {
                "REVIEW_MODEL": "bedrock",
                "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": where,
            }
        finally:
            group.stop()

    def until(self, condition: Callable[[], bool], working: list[Group]) -> None:
        """Wait for a state while processes work.

        Raises:
            FailedError: A process has ended by itself, or it takes too long.
        """
        until = time.monotonic() + PATIENCE_S
        while not condition():
            for group in working:
                group.check()
            if time.monotonic() > until:
                raise FailedError(f"It was not reached within {PATIENCE_S:.0f} s.")
            time.sleep(1.0)
