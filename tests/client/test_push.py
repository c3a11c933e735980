"""Guarantee: a run that is pushed goes on in the deployment; nothing is paid again."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from piecework import runtime
from piecework.client import Client
from piecework.domain.effect import Effect
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.domain.rows import EffectRow
from piecework.domain.states import JobStatus
from piecework.loading import load_pipeline
from piecework.settings import Settings
from piecework_simulation import push_command
from piecework_simulation.in_process import (
    InProcessAws,
    ModelClient,
    worker_beside,
)
from piecework_simulation.state.file import opened
from piecework_simulation.state.pushing import Pushed, push, unsafe
from tests.client.conftest import Run
from tests.client.test_run_state import PIPELINE, SLOTS, book, command, start
from tests.unit.orchestrator.cli.conftest import RUNNER

#: More than a job sends at once: the rest is its backlog.
ROWS = 80
NOW = 1_800_000_000.0
FILE = "mine.state"
#: The timeout of the effect of the pipeline.
TIMEOUT_S = 1.0
ASKS = """

from piecework import Context, Pipeline, Stage


async def approve(ctx: Context[Row]) -> bool:
    await ask(ctx.payload.n)
    answer = await ctx.wait_for("approval", ask="send it?", timeout=86400)
    return answer.approved


asking = Pipeline("asking", payload=Row, stages=[Stage(approve)])
"""


class DiedError(BaseException):
    """The death of a process, between two requests."""


class DyingClient(ModelClient):
    """A client whose process dies after some writes."""

    async def send(self, operation: str, **request: Any) -> dict[str, Any]:
        """Execute a request, unless the process is dead."""
        aws = self.aws
        assert isinstance(aws, DyingAws)
        if not operation.startswith(("get", "query", "receive")):
            if not aws.left:
                raise DiedError
            aws.left -= 1
        return await super().send(operation, **request)


class DyingAws(InProcessAws):
    """The AWS of a deployment; a process that writes dies after so many writes."""

    left = -1

    def client(self, service: Any, cost: Any) -> Any:
        """Return a client of a service."""
        return DyingClient(self, service, cost)


class Deployment:
    """A deployment, which a push and a worker reach by the models of AWS."""

    def __init__(self, tenant: str = "default") -> None:
        self.aws = DyingAws(Settings(receive_wait_s=1, tenant=tenant))

    @asynccontextmanager
    async def connect(self, _: Settings, **__: Any) -> AsyncIterator[Any]:
        """Replace `piecework.runtime.connect`."""
        yield self.aws.runtime()

    def places(self) -> set[tuple[str, str]]:
        """Return the keys of all rows but those of events and workers."""
        settings, found = self.aws.settings, set[tuple[str, str]]()
        for table in (settings.checkpoints_table, settings.dead_letters_table):
            for item in self.aws.dynamodb.call("scan", {"TableName": table})["Items"]:
                place = item["pk"]["S"], item["sk"]["S"]
                if "EVENT#" not in place[1] and place[0] != "WORKERS":
                    found.add(place)
        return found

    async def active(self) -> list[JobRef]:
        """Return the jobs that workers and reconcilers see."""
        return [ref async for ref in self.aws.runtime().jobs.active()]

    async def job(self, ref: JobRef) -> Job:
        """Return a job."""
        found = await self.aws.runtime().jobs.read(ref)
        assert found is not None
        return found


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    made = Deployment()
    monkeypatch.setattr(runtime, "connect", made.connect)
    return made


@pytest.fixture
def killed(project: Path) -> Path:
    """Return the folder of a run that was killed when a third of it was done."""
    program = PIPELINE.replace("timeout=5", f"timeout={TIMEOUT_S}") + ASKS
    (project / "app.py").write_text(program, encoding="utf-8")
    lines = [json.dumps({"n": n}) + "\n" for n in range(ROWS)]
    (project / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    process = start(project, "--state", FILE)
    while len([line for line in book(project) if line[0] == "effect"]) < ROWS // 3:
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.communicate()
    return project


def pushed(*words: str) -> Any:
    return RUNNER.invoke(push_command.app, ["--state", FILE, *words])


async def finished(deployment: Deployment, name: str, job: str) -> Any:
    """Run a worker of the deployment until a job has ended; return its results."""
    pipeline = load_pipeline(f"app:{name}")
    aws = deployment.aws
    async with (
        worker_beside(aws, {pipeline.name: pipeline}, ["app"]),
        Client(runtime=aws.runtime()) as client,
    ):
        handle = client.job(job, pipeline)
        await handle.wait(timeout=60)
        return {item.chunk: item.value async for item in handle.results()}  # type: ignore[union-attr]


def until_safe(*words: str) -> Any:
    """Push as soon as no request of an effect can be in flight."""
    late = time.monotonic() + 30
    while True:
        done = pushed(*words)
        if "may still be executing" not in done.stderr:
            return done
        assert time.monotonic() < late
        time.sleep(0.5)


def test_a_pushed_run_ends_in_the_deployment_and_pays_for_nothing_again(
    killed: Path, deployment: Deployment, run: Run
) -> None:
    done = until_safe("-o", "json")
    assert 0 == done.exit_code, done.stderr
    told = json.loads(done.stdout)
    assert told["done"] >= 1
    assert told["chunks"] == ROWS

    for refused in (
        run("app:squares", "rows.jsonl", "--state", FILE),
        command(killed, "jobs", "list", "--state", FILE),
    ):
        assert "run.state.pushed" in refused.stderr
        assert told["job"] in refused.stderr
    before = deployment.places()
    again = pushed()
    assert (0, before) == (again.exit_code, deployment.places())
    assert f"next: piecework jobs watch {told['job']}" in again.stderr

    found = asyncio.run(finished(deployment, "squares", told["job"]))
    assert {n: n * n for n in range(ROWS)} == found
    paid = Counter(line[1] for line in book(killed) if line[0] == "begin")
    assert paid.keys() == {str(n) for n in range(ROWS)}
    assert paid.total() - ROWS <= SLOTS
    effects = {tuple(line[1:]) for line in book(killed) if line[0] == "effect"}
    assert ROWS == len(effects)  # a repeated one has the same key
    assert ["join"] == [line[0] for line in book(killed) if line[0] == "join"]


def test_a_push_that_dies_goes_on_and_no_worker_sees_a_part_of_it(
    killed: Path,
) -> None:
    done, whole = until_quiet(killed), set[tuple[str, str]]()
    for writes in count():
        copy = killed / f"{writes}.state"
        copy.write_bytes(done.read_bytes())
        deployment = Deployment()

        async def once(copy: Path = copy, to: DyingAws = deployment.aws) -> Pushed:
            with opened(copy) as file:
                return await push(file, to.runtime(), lambda _: None)

        deployment.aws.left = writes
        try:
            asyncio.run(once())
        except (DiedError, BaseExceptionGroup):
            seen = asyncio.run(deployment.active())
            is_whole = whole <= deployment.places() and bool(whole)
            assert not seen or is_whole or not whole
        deployment.aws.left, died = -1, not deployment.aws.left
        ref = JobRef("default", asyncio.run(once()).job)
        whole = whole or deployment.places()
        job = asyncio.run(deployment.job(ref))
        assert (whole, [ref]) == (deployment.places(), asyncio.run(deployment.active()))
        assert (JobStatus.RUNNING, True) == (job.status, bool(job.sent_at))
        if not died:
            break
    assert writes > 5


def until_quiet(folder: Path) -> Path:
    """Return a whole copy of the file, when no effect can be in flight any more."""
    copy = folder / "quiet.state"
    with opened(folder / FILE) as file:
        file.note(began_at=file.facts["began_at"])
    copy.write_bytes((folder / FILE).read_bytes())
    time.sleep(TIMEOUT_S)
    return copy


def test_open_questions_go_along(killed: Path, deployment: Deployment) -> None:
    (killed / "two.jsonl").write_text('{"n": 3}\n{"n": 4}\n', encoding="utf-8")
    words = ("run", "app:asking", "two.jsonl", "--state", "asks.state")
    process = subprocess.Popen(
        [sys.executable, "-m", "piecework_orchestrator", *words],
        cwd=killed,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stderr is not None
    while "question approval waits" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)

    words = ("--state", "asks.state", "-o", "json")
    done = RUNNER.invoke(push_command.app, words)
    assert 0 == done.exit_code, done.stderr
    job, begun = json.loads(done.stdout)["job"], len(book(killed))

    async def answer() -> None:
        async with Client(runtime=deployment.aws.runtime()) as client:
            for chunk in (0, 1):
                await client.job(job).answer(chunk, {"approved": bool(chunk)}, "known")

    asyncio.run(answer())
    assert {0: False, 1: True} == asyncio.run(finished(deployment, "asking", job))
    assert begun == len(book(killed))  # no call was made again


# ── what is refused ──────────────────────────────────────────────────────────


def effect(state: str, kind: Effect, age_s: float) -> EffectRow:
    return EffectRow(
        {
            "effect_key": "k",
            "state": state,
            "effect": kind,
            "stage": "work",
            "started_at": iso(NOW - age_s),
            "max_duration_s": 60,
        }
    )


def job_of(status: JobStatus, sent_at: str = "now") -> Job:
    item = {"gen": 1, "chunks": 2, "pipeline": "p", "status": status}
    return Job.read(JobRef("default", "j"), {**item, "sent_at": sent_at})


@pytest.mark.parametrize(
    ("status", "effects", "reason"),
    [
        (JobStatus.RUNNING, [], ""),
        (JobStatus.RUNNING, [("DONE", Effect.NON_IDEMPOTENT, 5)], ""),
        (JobStatus.RUNNING, [("INTENT", Effect.LOOKUP, 61)], ""),
        (JobStatus.RUNNING, [("INTENT", Effect.LOOKUP, 59)], "still be executing"),
        (JobStatus.RUNNING, [("INTENT", Effect.NON_IDEMPOTENT, 61)], "in doubt"),
        (JobStatus.RUNNING, [("UNKNOWN", Effect.NON_IDEMPOTENT, 61)], "in doubt"),
        (JobStatus.SUBMITTING, [], "not all read"),
        (JobStatus.PAUSED, [], "paused"),
        (JobStatus.FINALIZING, [], "only its join"),
        (JobStatus.SUCCEEDED, [], "nothing of it is left"),
        (JobStatus.PARTIAL, [], "nothing of it is left"),
        (JobStatus.CANCELLED, [], "was cancelled"),
    ],
)
def test_only_a_run_that_is_safe_elsewhere_is_pushed(
    status: JobStatus, effects: list[tuple[str, Effect, float]], reason: str
) -> None:
    rows = [effect(*each) for each in effects]
    found = [told for told, _ in unsafe(job_of(status), rows, NOW)]
    assert bool(reason) == bool(found)
    assert reason in "".join(found)


def test_a_refused_push_changes_nothing_and_the_run_goes_on_here(
    killed: Path, deployment: Deployment, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(killed / FILE) as file:
        job = file.facts["job"]
    taken = {"pipeline": "p", "chunks": 1, "manifest_sha256": "x"}
    asyncio.run(deployment.aws.runtime().jobs.create(JobRef("default", job), taken))
    before = deployment.places()
    assert "run.push.taken" in pushed().stderr
    other = Deployment("elsewhere")
    monkeypatch.setattr(runtime, "connect", other.connect)
    assert "PIECEWORK_TENANT=default" in pushed().stderr
    other = Deployment()
    monkeypatch.setattr(runtime, "connect", other.connect)
    with opened(killed / FILE):
        assert "run.state.in_use" in pushed().stderr

    assert (before, set()) == (deployment.places(), other.places())
    done = run("app:squares", "rows.jsonl", "--state", FILE)
    assert 0 == done.exit_code, done.stderr
    ended = pushed()
    assert (2, "nothing of it is left" in ended.stderr) == (ended.exit_code, True)


def test_a_file_without_a_run_has_nothing_to_push(
    project: Path, deployment: Deployment
) -> None:
    del deployment
    assert "run.state.absent" in pushed().stderr
    with opened(project / FILE):
        pass
    assert "run.state.absent" in pushed().stderr
