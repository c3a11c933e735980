"""The connection of a program to one deployment, and the submit of a job.

The file is long, because a program finds all operations of a deployment on one class.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from pydantic import BaseModel
from typing_extensions import Unpack

from piecework.aws import AwsSession
from piecework.declared import PipelineFunction, as_pipeline
from piecework.domain.batch import CANCEL
from piecework.domain.budget import parse_cap
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.keys import TENANT_LIMIT
from piecework.domain.priority import parse_priority
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.tags import checked_tags
from piecework.errors import UsageError
from piecework.jobs.budgeting import set_tenant_budget
from piecework.jobs.fan_out import Progress
from piecework.pipelines import Pipeline
from piecework.resilience.lanes import parse_override
from piecework.resilience.limits import Limits
from piecework.runtime import Runtime, connect
from piecework.settings import load_settings
from piecework.store.breakers import FleetRecord, read_fleet
from piecework.store.dead_letters import Closing
from piecework.store.limits import Quotas, read_quota
from piecework.store.workers import read_reports
from piecework.webhooks.answer_links import AnswerLink
from piecework_orchestrator.client.arguments import (
    Deadline,
    Rows,
    epoch_of,
    read_rows,
    requested_text,
    require_dependency,
    require_limit_of,
    require_tenant,
)
from piecework_orchestrator.client.job import JobHandle
from piecework_orchestrator.client.sync import Blocking, BlockingIterator, SyncJob
from piecework_orchestrator.client.views import (
    JobFacts,
    known_dependency,
    limits_document,
    tenant_budget_document,
)
from piecework_orchestrator.dead_letters.closing import (
    AT_ONCE,
    Redriven,
    RedriveOptions,
    Selection,
    discard_selected,
    redrive_selected,
)
from piecework_orchestrator.dead_letters.compensate import (
    HandOutcome,
    compensate_selected,
)
from piecework_orchestrator.dead_letters.letters import group_by_cause, write_letters
from piecework_orchestrator.operate.approvals import (
    AnswerRequest,
    answer,
    linked_question,
    open_questions,
)
from piecework_orchestrator.operate.batches import (
    Wanted,
    list_batches,
    require_open,
    send_direct,
    show_batch,
    to_send,
    want,
)
from piecework_orchestrator.operate.identity import (
    new_job_id,
    operator_of,
    require_job_id,
)
from piecework_orchestrator.operate.pipelines import (
    list_pipelines,
    pause_one,
    resume_one,
)
from piecework_orchestrator.reading.events import fleet_documents
from piecework_orchestrator.reading.job_documents import Document
from piecework_orchestrator.reading.job_list import JobFilter, read_jobs
from piecework_orchestrator.reading.selection import Filter, LetterFilter, select
from piecework_orchestrator.submit.intake.on_invalid import OnInvalid
from piecework_orchestrator.submit.intake.refusals import (
    Refusals,
    on_invalid,
)
from piecework_orchestrator.submit.submit import Submission, submit

P = TypeVar("P", bound=BaseModel)
R = TypeVar("R")
T = TypeVar("T")


class Client:
    """Submits jobs to one deployment, and opens handles of them.

    Use it as an asynchronous context manager.

    Args:
        env, tenant, app: As the settings `PIECEWORK_ENV`, `PIECEWORK_TENANT` and
            `PIECEWORK_APP`, which apply by default.
        actor: The name of the operator in the record; default: user and host. On AWS
            the caller's identity stands behind it.
        runtime: A runtime that is open already; default: the client connects.
        session: A session of aioboto3, or of `piecework.aws.session`, that says which
            account and region; default: the SDK's own search.

    Raises:
        UnreachableError: On entry: `aws.endpoint.unreachable`.
        UsageError: On entry: `aws.resource.not_found`, `config.setting.invalid`.
    """

    def __init__(
        self,
        *,
        env: str | None = None,
        tenant: str | None = None,
        app: str | None = None,
        actor: str = "",
        runtime: Runtime | None = None,
        session: AwsSession | None = None,
    ) -> None:
        names = {"env": env, "tenant": tenant, "app": app}
        self._overrides = {name: value for name, value in names.items() if value}
        self._named_actor = actor
        self._runtime, self._session = runtime, session
        self._stack = AsyncExitStack()

    def __repr__(self) -> str:
        """Return the tenant of a connected client."""
        if self._runtime is None:
            return "Client(not connected)"
        settings = self._runtime.settings
        return f"Client(env={settings.env!r}, tenant={settings.tenant!r})"

    async def __aenter__(self) -> Self:
        """Connect."""
        if self._runtime is None:
            settings = load_settings(**self._overrides)
            connection = connect(settings, session=self._session)
            self._runtime = await self._stack.enter_async_context(connection)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection; jobs continue."""
        self._runtime = None
        await self._stack.aclose()

    @property
    def _actor(self) -> str:
        """The operator in the record."""
        return operator_of(self.runtime, self._named_actor)

    @property
    def runtime(self) -> Runtime:
        """The open runtime.

        Raises:
            UsageError: The client is not entered.
        """
        if self._runtime is None:
            message = "The client is not connected."
            raise UsageError(message, next_step="Use `async with Client() as client:`.")
        return self._runtime

    @overload
    async def submit(
        self,
        pipeline: PipelineFunction[P, R],
        rows: Rows[P],
        *,
        id: str | None = None,
        deadline: Deadline | None = None,
        tolerate: str | int = 0,
        source: str = "",
        priority: str = "",
        budget_usd: float | str | None = None,
        budget_tokens: int | str | None = None,
        sample: int | None = None,
        goes_on: bool = False,
        pin: bool = False,
        invalid: str = ...,
        lane: str = ...,
        tags: Mapping[str, str] | None = ...,
        on_progress: Progress = ...,
    ) -> JobHandle[R]: ...
    @overload
    async def submit(
        self,
        pipeline: Pipeline[P],
        rows: Rows[P],
        *,
        id: str | None = None,
        deadline: Deadline | None = None,
        tolerate: str | int = 0,
        source: str = "",
        priority: str = "",
        budget_usd: float | str | None = None,
        budget_tokens: int | str | None = None,
        sample: int | None = None,
        goes_on: bool = False,
        pin: bool = False,
        invalid: str = ...,
        lane: str = ...,
        tags: Mapping[str, str] | None = ...,
        on_progress: Progress = ...,
    ) -> JobHandle[Any]: ...
    async def submit(  # noqa: PLR0913 -- options of a submit
        self,
        pipeline: Pipeline[Any] | PipelineFunction[Any, Any],
        rows: Rows[Any],
        *,
        id: str | None = None,  # noqa: A002 -- the word of the command line
        deadline: Deadline | None = None,
        tolerate: str | int = 0,
        source: str = "",
        priority: str = "",
        budget_usd: float | str | None = None,
        budget_tokens: int | str | None = None,
        sample: int | None = None,
        goes_on: bool = False,
        pin: bool = False,
        invalid: str = OnInvalid.REFUSE,
        lane: str = "",
        tags: Mapping[str, str] | None = None,
        on_progress: Progress = lambda *_: None,
    ) -> JobHandle[Any]:
        """Submit rows as a job; a repeated submit of one id creates one job.

        Args:
            pipeline: Its workers must know it by the same name.
            rows: Read to the end before the job is created; memory holds one pack.
            id: The job id; None: a new one. An empty id is refused.
            deadline: When the job is cancelled and compensated, unless it has ended. A
                repeated submit may leave it out, and cannot change it.
            tolerate: How many chunks may fail in a job that succeeds: a number, or a
                share such as `2%`. If more fail, no further chunk starts.
            source: What the record says about the origin of the rows.
            priority: `high`, `normal` or `low`: the share of the job in the workers;
                empty: normal.
            budget_usd: The dollars that its calls may cost. At the cap the job is
                paused; `JobHandle.set_budget` raises it.
            budget_tokens: The tokens that its calls may use, in and out.
            sample: How many random chunks run first; then the job is paused with the
                code `sample` until `resume`. `forecast` tells what the rest will use.
            goes_on: The end of the sample starts the rest, without a pause.
            pin: Only workers of this program's code version run the job, until
                `JobHandle.unpin`. `PIECEWORK_CODE_VERSION` names it on both sides.
            invalid: What happens to rows that do not fit the payload. `refuse`: no job
                is created, and the error names them. `skip`: they are left out, and the
                certificate names them. `dead`: each is a dead letter, to be patched.
            lane: `direct`: no call waits for a cheaper tier of its model; empty: as the
                models declare.
            tags: Up to ten texts by their names, such as `{"team": "legal"}`, for
                `jobs` and the page to find the job by. Its retries keep them.
            on_progress: Called with each step, such as `read`, and its chunks so far.

        Raises:
            UsageError: `input.…`: a row is invalid, and no job was created;
                `cli.usage.invalid`: no such lane or priority;
                `submit.tolerance.invalid`, `submit.sample.invalid`,
                `submit.budget.invalid`;
                `submit.budget.no_price`: a model of the pipeline has no price;
                `submit.pin.unknown`: nothing tells the code version;
                `job.tag.invalid`: too many tags, or one that is too long;
                `submit.token.conflict`: a job with this id has other content, or
                another deadline, budget, priority, lane, tag, pin or sample.
        """
        rt, pipeline = self.runtime, as_pipeline(pipeline)
        require_job_id(id)
        until = epoch_of(deadline, rt.clock())
        ref = JobRef(rt.settings.tenant, id or new_job_id(rt.clock()))
        refusals = Refusals(on_invalid(invalid))
        chunks, origin = read_rows(rt, pipeline, rows, refusals)
        requested = requested_text(deadline, until)
        submission = Submission(
            ref,
            pipeline,
            source or origin,
            self._actor,
            until,
            requested,
            tolerate,
            parse_priority(priority) if priority else None,
            parse_cap(budget_usd, budget_tokens),
            sample,
            goes_on,
            pin,
            refusals,
            parse_override(lane),
            tags or {},
        )
        _, created = await submit(rt, submission, chunks, on_progress)
        refused = tuple(refusals.lines())
        return JobHandle(ref.job, rt, self._actor, pipeline, created, refused)

    @overload
    def job(self, id: str, pipeline: PipelineFunction[P, R]) -> JobHandle[R]: ...
    @overload
    def job(self, id: str, pipeline: Pipeline[Any] | None = None) -> JobHandle[Any]: ...
    def job(
        self,
        id: str,  # noqa: A002 -- the word of the command line
        pipeline: Pipeline[Any] | PipelineFunction[Any, Any] | None = None,
    ) -> JobHandle[Any]:
        """Return a handle of a job; `pipeline` types its results."""
        known = None if pipeline is None else as_pipeline(pipeline)
        return JobHandle(id, self.runtime, self._actor, known)

    async def jobs(
        self,
        *status: str,
        pipeline: str = "*",
        since: str = "",
        tags: Mapping[str, str] | None = None,
    ) -> AsyncIterator[JobFacts]:
        """Yield the jobs of the tenant, the newest first.

        Jobs that a newer version of Piecework wrote are left out.

        Args:
            status: Only these, such as `RUNNING`.
            pipeline: Only jobs of this pipeline; `review*` for all that begin so.
            since: Only jobs that were created within this span, such as `2d`.
            tags: Only jobs with all of these.

        Raises:
            UsageError: `cli.usage.invalid`: not a status, or not a span;
                `job.tag.invalid`.
        """
        wanted = JobFilter.parse(status, pipeline, since, checked_tags(tags or {}))
        async for document in read_jobs(self.runtime, wanted, []):
            yield JobFacts.read(document)

    async def dead_letters(
        self,
        *,
        closed: bool = False,
        unreadable: list[ChunkRef] | None = None,
        **filters: Unpack[LetterFilter],
    ) -> list[DeadLetterRow]:
        """Return the dead letters of all jobs that match, the newest first.

        `closed`: redriven and discarded ones too. `unreadable`: receives the chunks
        whose dead letters cannot be read; None: one raises `runtime.record.unreadable`.
        """
        return await select(self.runtime, Filter(closed=closed, **filters), unreadable)

    async def causes(
        self,
        *,
        closed: bool = False,
        unreadable: list[ChunkRef] | None = None,
        **filters: Unpack[LetterFilter],
    ) -> list[Document]:
        """Return the causes of the dead letters that match, the most frequent first.

        `closed` and `unreadable` are as in `dead_letters`.
        """
        return group_by_cause(
            await self.dead_letters(closed=closed, unreadable=unreadable, **filters)
        )

    async def export_dead_letters(
        self,
        to: str | Path,
        *,
        payloads: bool = False,
        closed: bool = False,
        unreadable: list[ChunkRef] | None = None,
        **filters: Unpack[LetterFilter],
    ) -> int:
        """Write the dead letters that match to a file; return how many.

        Args:
            to: A path, or `s3://bucket/key`; it gets one JSON document a line.
            payloads: Add the payloads of the chunks.
            closed: Redriven and discarded ones too.
            unreadable: As in `dead_letters`.

        Raises:
            UsageError: `cli.usage.invalid`: the file cannot be written.
            StoreError: S3 cannot be reached.
        """
        found = await self.dead_letters(closed=closed, unreadable=unreadable, **filters)
        return await write_letters(
            self.runtime, found, to, payloads=payloads, unreadable=unreadable
        )

    async def redrive(
        self,
        letters: Sequence[DeadLetterRow],
        reason: str,
        options: RedriveOptions = AT_ONCE,
    ) -> Redriven:
        """Process the chunks of dead letters again, in a new generation of their jobs.

        Args:
            letters: As `dead_letters` returned them; those closed since are left out.
            reason: Why the chunks will succeed now; kept in the record.
            options: New payloads, a rate, a canary.

        Raises:
            UsageError: `cli.reason.missing`, `redrive.payload.invalid`;
                `job.state.not_finished`, `job.retry.in_progress`,
                `redrive.selection.empty`: no job could be redriven.
            WaitTimeoutError: `cli.wait.timeout`, of a canary.
        """
        selection, closing = Selection(letters), Closing(self._actor, reason)
        return await redrive_selected(self.runtime, selection, closing, options)

    async def discard(
        self, letters: Sequence[DeadLetterRow], reason: str
    ) -> dict[str, int]:
        """Discard dead letters: their chunks stay dead; return how many of each job.

        Raises:
            UsageError: `cli.reason.missing`.
        """
        closing = Closing(self._actor, reason)
        return await discard_selected(self.runtime, Selection(letters), closing)

    async def compensate(
        self,
        letters: Sequence[DeadLetterRow],
        reason: str,
        outcome: HandOutcome | None = None,
        *,
        remark: Callable[[str], None] = lambda _: None,
    ) -> dict[str, int]:
        """Run failed compensations again, or resolve them; return how many of each job.

        Args:
            letters: Those without a failed compensation are left out.
            reason: Kept in the record.
            outcome: What an operator did by hand; None: the compensations run again.
            remark: Receives why a job is skipped, or a letter left out.

        Raises:
            UsageError: `cli.reason.missing`, `redrive.selection.empty`;
                `job.state.not_finished`, `redrive.compensation.unknown`: no job could
                be reopened.
        """
        closing = Closing(self._actor, reason)
        return await compensate_selected(
            self.runtime, Selection(letters), closing, outcome, remark
        )

    async def fleet_events(self, since: str = "") -> list[Document]:
        """Return the events of the environment and of the tenant, the newest first.

        They are acts on dependencies, budgets, webhooks and deleted jobs, and breakers
        that opened or closed. `since`: a span of time, such as `1d`; empty: all.
        """
        return await fleet_documents(self.runtime, since)

    async def approvals(self) -> AsyncIterator[Document]:
        """Yield the open questions of the 500 newest jobs; see `job.answer`.

        Jobs that a newer version of Piecework wrote are left out.
        """
        async for document in open_questions(self.runtime):
            yield document

    async def linked_question(self, link: AnswerLink) -> Document:
        """Return the question of a link; `outcome` says what was decided, if it was.

        Raises:
            NotFoundError: `job.chunk.not_found`, `approval.question.not_found`.
            UsageError: `approval.question.asked_again`.
        """
        ref = JobRef(self.runtime.settings.tenant, link.job).chunk(link.chunk)
        return await linked_question(self.runtime, ref, link.question, link.asked_at)

    async def answer_link(self, link: AnswerLink, value: Any, reason: str) -> Document:
        """Answer the question of a link, and return it; its stage goes on.

        The person to whom the link was given is the actor in the record.

        Args:
            link: What `AnswerLinks.read` returned.
            value: An instance of the question's model, or a JSON value.
            reason: Kept in the record.

        Raises:
            UsageError: `approval.question.asked_again`; and as `job.answer`.
        """
        actor = f"{link.to} (by link)" if link.to else self._actor
        request = AnswerRequest(value, actor, reason, link.question, link.asked_at)
        ref = JobRef(self.runtime.settings.tenant, link.job)
        return await answer(self.runtime, ref.chunk(link.chunk), request)

    async def limits(self) -> list[Document]:
        """Return the limits of the dependencies that have used any, or are paused."""
        return [
            limits_document(name, row)
            async for name, row in self._quotas().rows()
            if (quota := read_quota(row)).is_used or quota.paused
        ]

    async def set_limits(
        self, dependency: str, limits: Limits, reason: str = ""
    ) -> Document:
        """Change the limits of a dependency in force; return them.

        Args:
            dependency: The name of the dependency, as its code declares it; or
                `tenant:NAME` for the chunks of a tenant that run at once.
            limits: A limit that is None stays as it is; `Limits()` returns to those of
                the code.
            reason: Kept in the record.

        `known` is as in `pause_dependency`; the limits of a tenant do not have it.

        Raises:
            UsageError: `cli.usage.invalid`: not a name, or not a limit of a tenant.
        """
        require_limit_of(dependency, limits)
        fleet, called = await self._fleet()
        row = await self._quotas().set_limits(dependency, limits, reason)
        document = limits_document(dependency, row)
        if dependency.startswith(TENANT_LIMIT):
            return document
        return {**document, **known_dependency(dependency, fleet, called)}

    async def pause_dependency(self, dependency: str, reason: str = "") -> Document:
        """Start no further call to a dependency, in any job, until it is resumed.

        Workers use it within seconds; calls in flight finish. `replaced` is an earlier
        pause; `known` is false if no worker has called it, and it has no limit.

        Raises:
            UsageError: `cli.usage.invalid`: not the name of a dependency.
        """
        require_dependency(dependency)
        fleet, called = await self._fleet()
        earlier = fleet.quotas.get(dependency)
        row = await self._quotas().pause(dependency, reason)
        return {
            **limits_document(dependency, row),
            "replaced": earlier.paused if earlier else "",
            **known_dependency(dependency, fleet, called),
        }

    async def resume_dependency(self, dependency: str, reason: str = "") -> Document:
        """End the pause of a dependency; workers use it within seconds.

        Raises:
            UsageError: `job.dependency.not_paused`.
        """
        if not (await self._quotas().read(dependency)).paused:
            message = f"The dependency {dependency[:64]!r} is not paused."
            raise UsageError(message, code="job.dependency.not_paused")
        row = await self._quotas().resume(dependency, reason)
        return limits_document(dependency, row)

    async def pipelines(self) -> list[Document]:
        """Return the pipelines of workers, active jobs and pauses, by name."""
        return await list_pipelines(self.runtime, self.runtime.settings.tenant)

    async def pause_pipeline(self, pipeline: str, reason: str = "") -> Document:
        """Start no further call of a pipeline, in any job, until it is resumed.

        Its running jobs are paused, and so is each job that starts meanwhile. Calls in
        flight finish. `replaced` is an earlier pause; `known` is false if no worker and
        no active job has the name.
        """
        return await pause_one(
            self.runtime, self.runtime.settings.tenant, pipeline, self._actor, reason
        )

    async def resume_pipeline(self, pipeline: str, reason: str = "") -> Document:
        """End the pause of a pipeline; the jobs that it has paused continue.

        Raises:
            UsageError: `job.pipeline.not_paused`.
        """
        return await resume_one(
            self.runtime, self.runtime.settings.tenant, pipeline, self._actor, reason
        )

    async def batches(
        self, job: str = "", model: str = "", *, ended: bool = False
    ) -> list[Document]:
        """Return the open batches of the tenant, and what is gathered for the next.

        With `job` or `model` only theirs; with `ended` the last ended ones, too.
        """
        return await list_batches(self.runtime, Wanted(job, model, ended=ended))

    async def batch(self, batch: str) -> Document:
        """Return a batch with its jobs and chunks, and why it waits.

        Raises:
            NotFoundError: `llm.batch.not_found`.
        """
        return await show_batch(self.runtime, batch)

    async def cancel_batch(self, batch: str, reason: str = "") -> Document:
        """Cancel a batch: what it has answered is taken, the rest goes on.

        A worker with the model does it. `stranded`: none runs.

        Raises:
            NotFoundError: `llm.batch.not_found`.
            UsageError: `llm.batch.ended`.
        """
        found = await require_open(self.runtime, batch)
        return await want(self.runtime, found, CANCEL, self._actor, reason)

    async def send_direct(
        self, batch: str = "", model: str = "", reason: str = ""
    ) -> list[Document]:
        """Let gathered requests go direct, or what is left of a batch.

        Args:
            batch: The batch; empty: what is gathered.
            model: Only what is gathered of this model.
            reason: Kept in the record.

        Raises:
            NotFoundError: `llm.batch.not_found`.
            UsageError: `llm.batch.ended`; `cli.usage.invalid`: a batch and a model.
        """
        found = await to_send(self.runtime, batch, model)
        return await send_direct(self.runtime, found, self._actor, reason)

    async def budgets(self) -> list[Document]:
        """Return the daily budgets of the tenants that have one."""
        rt = self.runtime
        return [
            tenant_budget_document(tenant, row, rt.clock())
            async for tenant, row in rt.budgets.tenants()
        ]

    async def set_daily_budget(
        self,
        tenant: str,
        usd: float | str | None = None,
        tokens: int | str | None = None,
        reason: str = "",
    ) -> Document:
        """Set what all jobs of a tenant may spend in a day (UTC); return the budget.

        Jobs that it has paused go on. What is not passed stays as it is; without any,
        the tenant has no daily budget.

        Raises:
            UsageError: `submit.budget.invalid`; `cli.usage.invalid`: not a tenant.
        """
        rt, cap = self.runtime, parse_cap(usd, tokens)
        require_tenant(tenant)
        row = await set_tenant_budget(rt, tenant, cap, actor=self._actor, reason=reason)
        return tenant_budget_document(tenant, row, rt.clock())

    def _quotas(self) -> Quotas:
        rt = self.runtime
        return Quotas(rt.table, self._actor, rt.clock, rt.rng)

    async def _fleet(self) -> tuple[FleetRecord, set[str]]:
        """Read limits and breakers, and the names that workers have called."""
        table = self.runtime.table
        fleet, reports = await asyncio.gather(read_fleet(table), read_reports(table))
        return fleet, {name for report in reports for name in report.dependencies}

    @classmethod
    def sync(cls, **arguments: Any) -> SyncClient:
        """Return a client for scripts and notebooks, with the same methods.

        Use it as a context manager. Args: as `Client`.
        """
        return SyncClient(cls(**arguments))


class SyncClient:
    """A client for scripts and notebooks; `Client.sync` makes it.

    An event loop in a thread of its own runs the asynchronous client. So this client
    also works where a loop runs already, as in a notebook.
    """

    jobs = BlockingIterator(Client.jobs)
    dead_letters = Blocking(Client.dead_letters)
    causes = Blocking(Client.causes)
    export_dead_letters = Blocking(Client.export_dead_letters)
    redrive = Blocking(Client.redrive)
    discard = Blocking(Client.discard)
    compensate = Blocking(Client.compensate)
    fleet_events = Blocking(Client.fleet_events)
    approvals = BlockingIterator(Client.approvals)
    linked_question = Blocking(Client.linked_question)
    answer_link = Blocking(Client.answer_link)
    limits = Blocking(Client.limits)
    set_limits = Blocking(Client.set_limits)
    pipelines = Blocking(Client.pipelines)
    pause_pipeline = Blocking(Client.pause_pipeline)
    resume_pipeline = Blocking(Client.resume_pipeline)
    batches = Blocking(Client.batches)
    batch = Blocking(Client.batch)
    cancel_batch = Blocking(Client.cancel_batch)
    send_direct = Blocking(Client.send_direct)
    budgets = Blocking(Client.budgets)
    set_daily_budget = Blocking(Client.set_daily_budget)
    pause_dependency = Blocking(Client.pause_dependency)
    resume_dependency = Blocking(Client.resume_dependency)

    def __init__(self, client: Client) -> None:
        self.inner = client
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        """Return the client that this one runs."""
        return f"{self.inner!r}.sync()"

    def __enter__(self) -> Self:
        """Connect."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self.run(self.inner.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection; jobs continue."""
        try:
            self.run(self.inner.__aexit__(kind, error, trace))
        finally:
            self._stop()

    @overload
    def submit(
        self,
        pipeline: PipelineFunction[P, R],
        rows: Rows[P],
        *,
        id: str | None = None,
        deadline: Deadline | None = None,
        tolerate: str | int = 0,
        source: str = "",
        priority: str = "",
        budget_usd: float | str | None = None,
        budget_tokens: int | str | None = None,
        sample: int | None = None,
        goes_on: bool = False,
        pin: bool = False,
        invalid: str = ...,
        on_progress: Progress = ...,
    ) -> SyncJob[R]: ...
    @overload
    def submit(
        self,
        pipeline: Pipeline[P],
        rows: Rows[P],
        *,
        id: str | None = None,
        deadline: Deadline | None = None,
        tolerate: str | int = 0,
        source: str = "",
        priority: str = "",
        budget_usd: float | str | None = None,
        budget_tokens: int | str | None = None,
        sample: int | None = None,
        goes_on: bool = False,
        pin: bool = False,
        invalid: str = ...,
        on_progress: Progress = ...,
    ) -> SyncJob[Any]: ...
    def submit(
        self,
        pipeline: Pipeline[Any] | PipelineFunction[Any, Any],
        rows: Rows[Any],
        **options: Any,
    ) -> SyncJob[Any]:
        """Submit rows as a job; see `Client.submit`."""
        submitting = self.inner.submit(as_pipeline(pipeline), rows, **options)
        return SyncJob(self.run(submitting), self.run)

    @overload
    def job(self, id: str, pipeline: PipelineFunction[P, R]) -> SyncJob[R]: ...
    @overload
    def job(self, id: str, pipeline: Pipeline[Any] | None = None) -> SyncJob[Any]: ...
    def job(
        self,
        id: str,  # noqa: A002 -- the word of the command line
        pipeline: Pipeline[Any] | PipelineFunction[Any, Any] | None = None,
    ) -> SyncJob[Any]:
        """Return a handle of a job; `pipeline` types its results."""
        known = None if pipeline is None else as_pipeline(pipeline)
        return SyncJob(self.inner.job(id, known), self.run)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of this client.

        Raises:
            UsageError: The client is not entered.
        """
        if self._loop is None:
            work.close()
            message = "The client is not connected."
            raise UsageError(message, next_step="Use `with Client.sync() as client:`.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()
