"""Guarantee: the client and the command line can do the same, with the same errors."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from piecework import Context, PermanentError, Pipeline, Stage, runtime
from piecework.client import (
    Client,
    Edit,
    JobHandle,
    RedriveOptions,
    SyncClient,
    SyncJob,
)
from piecework.errors import PieceworkError
from piecework.settings import Settings
from piecework_examples.quickstart import Paragraph
from piecework_orchestrator.cli.app import COMMANDS
from piecework_simulation.in_process import InProcessAws, worker_beside
from tests.unit.orchestrator.cli.conftest import RUNNER, app

#: The command of each method of the client and of a job.
COMMAND_OF = {
    "submit": "submit",
    "jobs": "jobs list",
    "causes": "dlq stats",
    "facts": "jobs show",
    "view": "jobs show",
    "wait": "jobs watch",
    "explain": "jobs explain",
    "timeline": "jobs timeline",
    "events": "jobs events",
    "fleet_events": "events",
    "chunks": "chunks list",
    "chunk": "chunks show",
    "calls": "chunks calls",
    "differences": "jobs diff",
    "call": "chunks calls",
    "results": "results",
    "export": "results",
    "export_calls": "chunks calls",
    "save": "results",
    "cost": "jobs cost",
    "forecast": "jobs forecast",
    "cancel": "jobs cancel",
    "compensation_plan": "jobs cancel",
    "set_priority": "jobs set-priority",
    "unpin": "jobs unpin",
    "changes": "jobs accept-changes",
    "accept_changes": "jobs accept-changes",
    "set_budget": "jobs set-budget",
    "batches": "batches list",
    "batch": "batches show",
    "cancel_batch": "batches cancel",
    "send_direct": "batches direct",
    "budgets": "budgets list",
    "set_daily_budget": "budgets set",
    "retry": "jobs retry",
    "run_again_plan": "jobs retry",
    "delete": "jobs delete",
    "pause": "jobs pause",
    "resume": "jobs resume",
    "dead_letters": "dlq list",
    "dead_letter": "dlq show",
    "redrive": "dlq redrive",
    "export_dead_letters": "dlq export",
    "discard": "dlq discard",
    "compensate": "dlq compensate",
    "limits": "limits list",
    "set_limits": "limits set",
    "pause_dependency": "limits pause",
    "resume_dependency": "limits resume",
    "pipelines": "pipelines list",
    "pause_pipeline": "pipelines pause",
    "resume_pipeline": "pipelines resume",
    "approvals": "approvals list",
    "questions": "approvals list",
    "question": "approvals show",
    "answer": "approvals answer",
    "linked_question": "approvals show",
    "answer_link": "approvals answer",
    "effects": "effects list",
    "resolve_effect": "effects resolve",
}
#: Commands of an installation, a machine or a process, not of jobs and their calls.
NOT_OF_A_JOB = {
    *("demo", "init", "run", "dev", "up", "down", "doctor", "reconcile", "worker"),
    *("ask", "push", "simulate", "explain-code", "ui"),
    *(name for name in COMMANDS if name.startswith(("infra ", "config ", "webhooks "))),
}
#: What opens a job, connects or closes: a program needs it, and a command does not.
OPENS = {"job", "sync", "runtime", "ref"}


def methods(kind: type[Any]) -> set[str]:
    """Return the public methods of a class."""
    found = {name for name in vars(kind) if not name.startswith("_")}
    return {name for name in found if callable(getattr(kind, name, None))} - OPENS


def test_each_method_has_a_command_and_each_command_a_method() -> None:
    assert methods(Client) | methods(JobHandle) == COMMAND_OF.keys()
    assert COMMANDS.keys() == {*COMMAND_OF.values()} | NOT_OF_A_JOB


@pytest.mark.parametrize(
    ("waiting", "original"), [(SyncClient, Client), (SyncJob, JobHandle)]
)
def test_the_blocking_client_has_the_same_methods(
    waiting: type[Any], original: type[Any]
) -> None:
    named = {name for name in vars(waiting) if not name.startswith("_")}
    assert methods(original) <= named
    for name in methods(original) - {"submit"}:  # it takes the options as they come
        expected = inspect.signature(getattr(original, name))
        found = vars(waiting)[name]
        assert inspect.signature(getattr(found, "method", found)).parameters == (
            expected.parameters
        )


#: Texts that cannot be counted at present.
broken: set[str] = set()


async def count(ctx: Context[Paragraph]) -> int:
    """Count the words of a text."""
    if ctx.payload.text in broken:
        raise PermanentError("this text cannot be counted")
    return len(ctx.payload.text.split())


words = Pipeline("words", payload=Paragraph, stages=[Stage(count)])
ROWS = [{"text": "one"}, {"text": "broken"}]


@dataclass
class Deployment:
    """A deployment in this process, for a client and for commands."""

    aws: InProcessAws

    @asynccontextmanager
    async def connect(self, _: Settings, **__: Any) -> AsyncIterator[Any]:
        """Replace `piecework.runtime.connect`."""
        yield self.aws.runtime()

    async def prepare(self, job: str, state: str) -> None:
        """Make a job that runs, is paused, is cancelled, or has a dead letter."""
        async with Client(runtime=self.aws.runtime()) as client:
            handle = await client.submit(words, ROWS, id=job)
            if state == "CANCELLED":
                await handle.cancel("not needed")
            if state == "PAUSED":
                await handle.pause("not now")
            if state not in {"RUNNING", "PAUSED"}:
                names = {"words": words}
                async with worker_beside(self.aws, names, [__name__]):
                    await handle.wait(timeout=30)

    def act(self, job: str, act: Callable[[JobHandle[int]], Any]) -> Any:
        """Return what an act of the client returns."""

        async def run() -> Any:
            async with Client(runtime=self.aws.runtime()) as client:
                done = act(client.job(job))
                return await done if isinstance(done, Coroutine) else done

        return asyncio.run(run())

    def document(self, job: str) -> dict[str, Any]:
        """Return a job without its names, times and hashes."""
        found = self.act(job, JobHandle.view).document
        return {
            name: found.get(name)
            for name in ("status", "gen", "counts", "dead_letters", "chunks")
        } | {
            "why": found.get("reopen_reason"),
            "cancel": sorted(found.get("cancel", ())),
            "pause": found.get("pause", {}).get("message"),
        }


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    broken.add("broken")
    made = Deployment(InProcessAws(Settings(receive_wait_s=1, cancel_poll_s=0.2)))
    monkeypatch.setattr(runtime, "connect", made.connect)
    return made


@pytest.mark.parametrize(
    ("state", "command", "act"),
    [
        ("RUNNING", "jobs cancel JOB --reason why --yes", lambda j: j.cancel("why")),
        (
            "RUNNING",
            "jobs cancel JOB --compensate --yes",
            lambda j: j.cancel(compensate=True),
        ),
        ("CANCELLED", "jobs retry JOB --reason why", lambda j: j.retry("why")),
        ("RUNNING", "jobs pause JOB --reason why", lambda j: j.pause("why")),
        ("PAUSED", "jobs resume JOB --reason why", lambda j: j.resume("why")),
        ("PARTIAL", "jobs retry JOB --reason why", lambda j: j.retry("why")),
        (
            "PARTIAL",
            "dlq redrive --job JOB --code runtime.* --reason why --yes",
            lambda j: j.redrive("why", code="runtime.*"),
        ),
        (
            "PARTIAL",
            'dlq redrive --job JOB --chunk 1 --patch {"text":"x"} --reason why --yes',
            lambda j: j.redrive(
                "why", RedriveOptions(edit=Edit({"text": "x"})), chunks=[1]
            ),
        ),
        (
            "PARTIAL",
            "dlq discard --job JOB --stage count --reason why --yes",
            lambda j: j.discard("why", stage="count"),
        ),
    ],
)
def test_a_method_does_what_its_command_does(
    deployment: Deployment, state: str, command: str, act: Callable[..., Any]
) -> None:
    for job in ("by-command", "by-client"):
        asyncio.run(deployment.prepare(job, state))
    before = deployment.document("by-client")
    done = RUNNER.invoke(app, command.replace("JOB", "by-command").split())
    deployment.act("by-client", act)
    assert done.exit_code == 0, done.stderr
    assert "retry" not in command or "\nsent " in done.stderr
    assert deployment.document("by-command") == deployment.document("by-client")
    assert deployment.document("by-client") != before


LIST = ["jobs", "list", "--tag"]


def test_tags_find_a_job_and_stay_when_it_is_retried(deployment: Deployment) -> None:
    async def run() -> list[str]:
        async with Client(runtime=deployment.aws.runtime()) as client:
            tags = {"team": "legal", "run": "7"}
            job = await client.submit(words, ROWS, id="tagged", tags=tags)
            await client.submit(words, ROWS, id="tagged")  # left out: as before
            with pytest.raises(PieceworkError) as refused:
                await client.submit(words, ROWS, id="tagged", tags={"team": "x"})
            assert refused.value.code == "submit.token.conflict"
            await client.submit(words, ROWS, id="plain")
            await job.cancel("why")
            async with worker_beside(deployment.aws, {"words": words}, [__name__]):
                await job.wait(timeout=30)
            await job.retry("why")
            assert (await job.facts()).document["tags"] == tags
            found = client.jobs(tags={"team": "legal"})
            return [each.id async for each in found]

    assert asyncio.run(run()) == ["tagged"]
    listed = RUNNER.invoke(app, [*LIST, "team=legal", "--tag", "run=7"])
    assert "tagged" in listed.stdout
    assert "run=7," in listed.stdout
    assert "team=legal" in listed.stdout
    assert "plain" not in listed.stdout
    shown = RUNNER.invoke(app, ["jobs", "show", "tagged"])
    assert "run=7, team=legal" in shown.stdout
    none = RUNNER.invoke(app, [*LIST, "team=sales", "-o", "json"])
    assert json.loads(none.stdout) == []
    wrong = RUNNER.invoke(app, [*LIST, "team"])
    assert (wrong.exit_code, "job.tag.invalid" in wrong.stderr) == (2, True)


async def plan_of(job: JobHandle[int]) -> list[Any]:
    """Return all steps of a compensation plan."""
    return [step async for steps in job.compensation_plan() for step in steps]


@pytest.mark.parametrize(
    ("state", "command", "act"),
    [
        ("PARTIAL", "jobs cost JOB -o json", lambda j: j.cost(region="us-east-1")),
        ("RUNNING", "jobs cancel JOB --compensate --dry-run -o json", plan_of),
    ],
)
def test_a_method_returns_the_document_of_its_command(
    deployment: Deployment, state: str, command: str, act: Callable[..., Any]
) -> None:
    asyncio.run(deployment.prepare("one", state))
    if "cost" in command:
        command += " --region us-east-1"
    done = RUNNER.invoke(app, command.replace("JOB", "one").split())
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == deployment.act("one", act)


async def export_both(job: JobHandle[int]) -> tuple[int, int]:
    """Export results and dead letters to S3."""
    letters = await job.export_dead_letters("s3://exports/a/dead.jsonl", payloads=True)
    return await job.export("s3://exports/a/out.csv"), letters


def test_results_and_dead_letters_go_to_s3(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    s3 = deployment.aws.s3
    s3.create_bucket("exports")
    asyncio.run(deployment.prepare("one", "PARTIAL"))
    assert deployment.act("one", export_both) == (2, 1)
    for command in (
        "results one --to s3://exports/b/out.csv",
        "dlq export --job one --payload --to s3://exports/b/dead.jsonl",
        "results one --to out.csv",
        "dlq export --job one --payload --to dead.jsonl",
    ):
        done = RUNNER.invoke(app, command.split())
        assert done.exit_code == 0, done.stderr
    for name, first in (("out.csv", b"chunk,label,status,"), ("dead.jsonl", b"{")):
        local = (tmp_path / name).read_bytes()
        assert local.startswith(first)
        for folder in ("a", "b"):
            place = {"Bucket": "exports", "Key": f"{folder}/{name}"}
            assert s3.call("get_object", place)["Body"].content == local


@pytest.mark.parametrize(
    ("job", "command", "act"),
    [
        ("none", "jobs show JOB", JobHandle.view),
        ("none", "jobs events JOB", JobHandle.events),
        ("none", "jobs explain JOB", JobHandle.explain),
        ("none", "jobs watch JOB", JobHandle.wait),
        ("none", "results JOB --to out.csv", lambda j: j.export("out.csv")),
        ("running", "results JOB --save out", lambda j: j.save("out")),
        (
            "none",
            "results JOB --to s3://bucket/k.csv",
            lambda j: j.export("s3://bucket/k.csv"),
        ),
        (
            "running",
            "results JOB --to s3://none/a.csv",
            lambda j: j.export("s3://none/a.csv"),
        ),
        ("none", "jobs cost JOB", JobHandle.cost),
        ("none", "dlq export --job JOB", lambda j: j.export_dead_letters("out")),
        ("none", "jobs cancel JOB --yes", JobHandle.cancel),
        ("running", "jobs set-priority JOB low", lambda j: j.set_priority("low")),
        ("running", "jobs unpin JOB", JobHandle.unpin),
        ("none", "jobs unpin JOB", JobHandle.unpin),
        ("none", "jobs retry JOB", JobHandle.retry),
        ("running", "jobs retry JOB", JobHandle.retry),
        ("running", "jobs resume JOB", JobHandle.resume),
        ("none", "jobs pause JOB", JobHandle.pause),
        (
            "running",
            "jobs retry JOB --deadline 2001-01-01T00:00:00Z",
            lambda j: j.retry(deadline="2001-01-01T00:00:00Z"),
        ),
        ("running", "jobs timeline JOB 7", lambda j: j.timeline(7)),
        ("running", "chunks show JOB 7", lambda j: j.chunk(7)),
        ("running", "dlq show JOB 0", lambda j: j.dead_letter(0)),
        ("none", "dlq list --job JOB", JobHandle.dead_letters),
        (
            "running",
            "dlq redrive --job JOB --reason why --yes",
            lambda j: j.redrive("why"),
        ),
        (
            "running",
            "dlq discard --job JOB --reason why --yes",
            lambda j: j.discard("why"),
        ),
        (
            "running",
            "effects resolve JOB 0 abc --outcome did-not-happen --reason why --yes",
            lambda j: j.resolve_effect(0, "abc", "why", happened=False),
        ),
        (
            "running",
            "effects resolve JOB 0 abc --outcome happened --answer null --yes",
            lambda j: j.resolve_effect(0, "abc", "", happened=True),
        ),
        (
            "running",
            "jobs accept-changes JOB --reason why --yes",
            lambda j: j.accept_changes("why"),
        ),
    ],
)
def test_a_refused_method_has_the_code_of_its_command(
    deployment: Deployment,
    job: str,
    command: str,
    act: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(deployment.prepare("running", "RUNNING"))
    done = RUNNER.invoke(app, command.replace("JOB", job).split())
    with pytest.raises(PieceworkError) as refused:
        deployment.act(job, act)
    assert f"error {refused.value.code}: " in done.stderr
    assert f"next: {refused.value.next_step}\n" in done.stderr
    assert done.exit_code == refused.value.exit_code
