"""What a run remembers between two starts: its job, its input and its code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from piecework.domain.budget import NO_CAP, parse_cap
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework.saga.code_version import code_version
from piecework.settings import Settings
from piecework.store.dead_letters import OPEN
from piecework_orchestrator.client import Client, JobHandle
from piecework_orchestrator.operate.identity import new_job_id
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.reading.job_documents import dead_letters_of
from piecework_simulation.in_process import InProcessAws
from piecework_simulation.state.file import StateFile, opened
from piecework_simulation.state.going_on import count_done, go_on
from piecework_worker.services import queues_of

#: Seconds until an answer is in the journal: a write costs little here.
JOURNAL_FLUSH_S = 0.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Remembered:
    """A run with a state file.

    Attributes:
        keeps: Whether the user named the file, which then outlives the run.
    """

    file: StateFile
    keeps: bool

    @property
    def job(self) -> str:
        """The id of the job of the run."""
        return self.file.facts["job"]

    async def go_on(
        self,
        aws: InProcessAws,
        pipeline: Pipeline,
        source: str,
        digest: str,
        say: Say,
        line: str = "",
        *,
        question: str = "",
    ) -> None:
        """Fill the models from the file, and go on with the run that it holds.

        `source` is what the run reads, in words. `digest` is that of its rows; empty:
        only their reader can tell. `line` is the line that was typed; empty: none was.
        `question` tells one question of `piecework ask` from another; empty: the line
        is of another command.

        Raises:
            UsageError: `run.input.changed`: the file holds another run;
                `run.state.pushed`.
        """
        file, settings = self.file, aws.settings
        file.require_owner()
        facts = file.facts
        version = code_version(pipeline, settings)
        if not facts:
            now = time.time()
            file.note(
                job=new_job_id(now),
                began_at=str(now),
                pipeline=pipeline.name,
                source=source,
                digest=digest,
                code_version=version,
                app=settings.app,
                env=settings.env,
                tenant=settings.tenant,
                line=line,
                question=question,
                folder=str(Path.cwd()),
            )
        file.attach(aws)
        if not facts:
            return
        rt = aws.runtime()
        job = await rt.jobs.read(JobRef(settings.tenant, facts["job"]))
        began = datetime.fromtimestamp(float(facts["began_at"]))  # noqa: DTZ006 -- as the user's clock shows it
        same_day = began.date() == datetime.now().date()  # noqa: DTZ005 -- as above
        when = f"{began:%H:%M}" if same_day else f"{began:%Y-%m-%d %H:%M}"
        done = (
            "" if job is None else f", {await count_done(rt, job)} of {job.chunks} done"
        )
        same = (source, digest, question, settings)
        self._require_same(facts, pipeline, *same, when + done)
        status = None if job is None else job.status
        is_over = status is not None and status.ended
        what = "prints the ended" if is_over else "continues the"
        if status is JobStatus.CANCELLED:
            what, is_over = "goes on with the cancelled", False
        say(f"{what} run of {when}{done} (--fresh starts anew)")
        if version != facts["code_version"] and not is_over:
            before = facts["code_version"] or "unknown"
            say(f"the code has changed: {before} -> {version or 'unknown'}")
            file.note(code_version=version)
        file.note(line=line, folder=str(Path.cwd()))
        if job is not None:
            aws.create_queues(queues_of([pipeline]))
            await go_on(rt, job)

    def _require_same(
        self,
        facts: dict[str, str],
        pipeline: Pipeline,
        source: str,
        digest: str,
        question: str,
        settings: Settings,
        run: str,
    ) -> None:
        """Raise if the file holds a run of something else."""
        deployment = [settings.app, settings.env, settings.tenant]
        if facts["pipeline"] != pipeline.name:
            what = f"{self.file.path} holds a run of {facts['pipeline']}: of {run}."
        elif [facts["app"], facts["env"], facts["tenant"]] != deployment:
            what = f"{self.file.path} holds a run of another tenant: of {run}."
        elif facts.get("question", "") != question:
            what = f"{self.file.path} holds the answers to another question: of {run}."
        elif facts["digest"] != digest:
            what = f"{source} has other content than the run of {run}."
        else:
            return
        raise UsageError(what, code="run.input.changed")

    async def end(
        self, rt: Runtime, job: Job, say: Say, *, spent: Sequence[str] = ()
    ) -> None:
        """Forget a run whose chunks all succeeded; else say what comes next.

        `spent`: the options of the budget that ended the run.
        """
        if (
            await count_done(rt, job) == job.chunks
            and job.status is JobStatus.SUCCEEDED
        ):
            self.file.is_over = not self.keeps
            return
        if job.status.ended:
            letters = dead_letters_of(rt).of_job(job.ref)
            has_open = any([letter.state == OPEN async for letter in letters])
            for each in kept_lines(job, spent, has_open=has_open):
                say(each)


def kept_lines(job: Job, spent: Sequence[str], *, has_open: bool) -> Iterator[str]:
    """Yield what comes after a run that is kept: what each kind of left chunks needs.

    `has_open`: whether dead letters are open. The output adds the state file to the
    commands.
    """
    name = job.ref.job
    if has_open:
        yield "the run is kept: piecework dlq list"
        yield (
            f"after a fix: piecework dlq redrive --job {name} --reason TEXT, then the"
            " same line again"
        )
    else:
        yield f"the run is kept: piecework jobs show {name}"
    if job.status is not JobStatus.CANCELLED:
        return
    if spent:
        yield f"to go on: the same line with a higher {' or '.join(spent)}"
    else:
        yield "to go on: the same line again"


async def submit_once(
    client: Client,
    pipeline: Pipeline,
    rows: Any,
    options: Mapping[str, Any],
    memory: Remembered | None,
) -> JobHandle[Any]:
    """Submit the job of a run, or finish its submit; a submitted one goes on.

    Raises:
        UsageError: As `Client.submit`.
    """
    if memory is None:
        return await client.submit(pipeline, rows, **options)
    rt = client.runtime
    record = await rt.jobs.read(JobRef(rt.settings.tenant, memory.job))
    if record is None or not record.sent_at:
        return await client.submit(pipeline, rows, id=memory.job, **options)
    job = client.job(memory.job, pipeline)
    usd, tokens = options.get("budget_usd"), options.get("budget_tokens")
    if parse_cap(usd, tokens) not in {NO_CAP, record.budget}:
        await job.set_budget(usd=usd or None, tokens=tokens or None)
    if record.status is JobStatus.CANCELLED:  # by a person, or its budget was spent
        by = (job.ref, job.actor, "the run goes on")
        cancelled = frozenset({ChunkStatus.CANCELLED})  # a redrive opens the dead ones
        await retry(rt, RetryRequest(*by, statuses=cancelled), [])
    return job


@contextmanager
def remembering(
    path: Path | None, *, keeps: bool, fresh: bool, say: Say
) -> Iterator[Remembered | None]:
    """Open the state file of a run; yield None if it has none.

    A run whose user named no file goes on without one where none can be written.

    Raises:
        UsageError: As `opened`.
    """
    if path is None:
        yield None
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(opened(path, fresh=fresh))
        except UsageError as error:
            if keeps or error.code != "run.state.unwritable":
                raise
            say(f"this run is not remembered: {error.message}")
            yield None
            return
        try:
            yield Remembered(file, keeps)
        finally:
            if not keeps and file.has_no_job:
                file.is_over = True
