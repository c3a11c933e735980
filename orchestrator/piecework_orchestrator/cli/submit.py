"""`submit`: split the input into chunks and start a job, or estimate it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Annotated, Any

import typer

from piecework.domain.budget import parse_cap
from piecework.domain.keys import is_name
from piecework.domain.priority import parse_priority
from piecework.domain.tags import parse_tags
from piecework.errors import StoreError, UsageError
from piecework.jobs.sampling import draw_sample
from piecework.loading import load_pipeline
from piecework.pipelines import Pipeline, lint_stage_order, missing_contacts
from piecework.resilience.lanes import parse_override
from piecework.settings import load_settings
from piecework_orchestrator.cli.options import (
    BudgetTokensOption,
    BudgetUsdOption,
    DeadlineOption,
    Format,
    InvalidOption,
    LaneOption,
    OutputOption,
    PipelineArgument,
    TagOption,
    TimeoutOption,
)
from piecework_orchestrator.cli.output import Output, facts
from piecework_orchestrator.cli.progress import show_steps, wait_for
from piecework_orchestrator.cli.run import connection, run_async
from piecework_orchestrator.cli.views.jobs import left_out_text, show_facts
from piecework_orchestrator.client import Client, JobHandle
from piecework_orchestrator.operate.identity import (
    event_job_id,
    new_job_id,
    require_job_id,
)
from piecework_orchestrator.reading.times import parse_deadline, parse_limit
from piecework_orchestrator.submit.intake.json_lines import SCHEME
from piecework_orchestrator.submit.intake.on_invalid import OnInvalid
from piecework_orchestrator.submit.intake.refusals import Refusals
from piecework_orchestrator.submit.intake.source import chunk_inputs, require_source
from piecework_orchestrator.submit.models import lane_prices, require_prices
from piecework_orchestrator.submit.submit import tolerated_of

FIRST_LABELS = 5
#: The longest name before the event in the id of a job.
LONGEST_NAME = 24


def submit(  # noqa: PLR0913, PLR0917 -- options of a command
    pipeline: PipelineArgument,
    source: Annotated[
        str,
        typer.Argument(
            help="A document, a directory, a .jsonl, .csv or .parquet file, `-`, or "
            "s3://bucket/key."
        ),
    ],
    job_id: Annotated[
        str | None,
        typer.Option(
            "--job-id",
            metavar="ID",
            help="The job id; repeated submits of one id create one job.",
            show_default="a new one",
        ),
    ] = None,
    event: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="The event that asks for the job: its id is made of --job-id and of "
            "this, so the same event makes no second job.",
            show_default=False,
        ),
    ] = "",
    deadline: DeadlineOption = "",
    tolerate: Annotated[
        str,
        typer.Option(
            metavar="N|N%",
            help="Succeed although so many chunks fail; if more fail, start no more.",
            show_default="none",
        ),
    ] = "",
    priority: Annotated[
        str,
        typer.Option(
            metavar="high|normal|low",
            help="The share of the job in the workers.",
            show_default="normal",
        ),
    ] = "",
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Run N random chunks first, forecast the rest, and ask.",
            show_default="no sample",
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="With --sample: start the rest without asking."),
    ] = False,
    budget_usd: BudgetUsdOption = "",
    budget_tokens: BudgetTokensOption = "",
    pin: Annotated[
        bool,
        typer.Option(
            "--pin", help="Let only workers of this code version run the job."
        ),
    ] = False,
    invalid: InvalidOption = OnInvalid.REFUSE,
    lane: LaneOption = "",
    tag: TagOption = None,
    wait: Annotated[
        bool, typer.Option("-w", "--wait", help="Wait until the job has ended.")
    ] = False,
    timeout: TimeoutOption = "",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Read and split the input, create nothing."),
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Submit documents or rows to a pipeline as a job."""

    def check() -> None:
        check_options(
            id_of(job_id, event), wait=wait or sample is not None, timeout=timeout
        )
        load_pipeline(pipeline)
        require_source(source)

    async def run(out: Output) -> int | None:
        waits = wait or sample is not None
        limit_s = check_options(id_of(job_id, event), wait=waits, timeout=timeout)
        if yes and sample is None:
            message = "--yes is valid only with --sample."
            raise UsageError(message, next_step="Add --sample N, or leave --yes out.")
        found = load_pipeline(pipeline)
        for text in missing_contacts(found):
            out.say(f"warning: {text}")
        if priority:
            parse_priority(priority)
        if deadline:
            parse_deadline(deadline, time.time())
        tolerated_of(tolerate or "0", 0)
        parse_override(lane)
        tags = parse_tags(tag or ())
        draw_sample(0, sample, Random())
        require_prices(found, parse_cap(budget_usd, budget_tokens))
        if dry_run:
            await show_estimate(out, found, source, Refusals(invalid), sample)
            return None
        request = SubmitRequest(
            *(
                pipeline,
                found,
                source,
                id_of(job_id, event),
                deadline,
                tolerate or "0",
                priority,
            ),
            budget_usd=budget_usd,
            budget_tokens=budget_tokens,
            sample=sample,
            goes_on=yes,
            pin=pin,
            invalid=invalid,
            lane=lane,
            tags=tags,
        )
        async with connection(out) as rt, Client(runtime=rt) as client:
            return await start_job(client, out, request, wait=wait, limit_s=limit_s)

    run_async(run, output, before=check)


def id_of(job_id: str | None, event: str) -> str | None:
    """Return the id of the job; None: a new one.

    Raises:
        UsageError: `cli.usage.invalid`: an event needs a name with which the id begins.
    """
    if not event:
        return job_id
    if job_id is None or not is_name(job_id) or len(job_id) > LONGEST_NAME:
        message = "--event needs --job-id NAME, with which the id of the job begins."
        step = f"Use up to {LONGEST_NAME} letters, digits, `-` and `_`."
        raise UsageError(message, next_step=step)
    return event_job_id(job_id, event)


async def show_estimate(
    out: Output,
    pipeline: Pipeline,
    source: str,
    refusals: Refusals,
    sample: int | None,
) -> None:
    """Write the chunks, calls and limits that a submit would have."""
    if source.startswith(SCHEME):
        async with connection(out) as rt:
            document = await estimate(pipeline, source, rt.objects.client, refusals)
    else:
        document = await estimate(pipeline, source, None, refusals)
    say_refused(out, refusals.action, refusals.lines())
    if sample is not None:
        first = len(draw_sample(document["chunks"], sample, Random()))
        document["sample_chunks"] = first or None

    def draw(console: Any) -> None:
        calls = document["calls"]
        labels = document["first_labels"]
        more = document["chunks"] - len(labels)
        shown = [*labels, *([f"… and {more} more"] if more else [])]
        console.print(
            facts(
                [
                    ("pipeline", document["pipeline"]),
                    ("source", source),
                    ("chunks", document["chunks"]),
                    ("sample", sample_text(document, sample)),
                    ("left out", left_out_text(document)),
                    ("calls", "unknown" if calls is None else f"about {calls}"),
                    ("payload", f"{document['payload_bytes']:,} bytes"),
                    ("lanes", "\n".join(map(lane_text, document["lanes"]))),
                    ("stages", "\n".join(map(stage_limit, document["stages"]))),
                    ("advice", "\n".join(document["advice"])),
                    ("claim", claim_limits(document["limits"])),
                    ("labels", "\n".join(shown)),
                ]
            )
        )

    out.document(document, draw)
    if out.table:
        out.say("no job was created; next: repeat the command without --dry-run")


def sample_text(document: dict[str, Any], sample: int | None) -> str:
    """Return how many chunks would run first; empty: no sample is asked for."""
    first = document.get("sample_chunks")
    if first is None:
        return "" if sample is None else "none: all chunks would run at once"
    rest = document["chunks"] - first
    return f"{first} random ones run first, then a forecast; {rest} wait for your word"


def stage_limit(stage: dict[str, Any]) -> str:
    """Return a stage and its timeout as text."""
    limit = stage["timeout_s"]
    text = "as long as a claim" if limit is None else f"{limit:g} s at most"
    return f"{stage['stage']}: {text}"


def lane_text(found: dict[str, Any]) -> str:
    """Return the prices of a model in its lane and direct as text."""
    text, usd = f"{found['model']}: {found['lane']}", found["lane_usd"]
    if usd is None:
        return f"{text}, no price is known"
    direct = found["direct_usd"]
    text += f" {usd['in']:g} USD in, {usd['out']:g} out; direct {direct['in']:g} in, "
    return f"{text}{direct['out']:g} out, for a million tokens"


def claim_limits(found: dict[str, Any]) -> str:
    """Return the limits of a claim as text."""
    return (
        f"{found['max_runtime_s']:g} s at most, "
        f"{found['stall_timeout_s']:g} s without a completed call or stage"
    )


def say_refused(out: Output, action: OnInvalid, refused: Sequence[str]) -> None:
    """Say what is wrong with the rows that were left out or made dead letters."""
    if refused:
        done = "left out" if action is OnInvalid.SKIP else "made dead letters"
        out.say("\n".join([f"warning: rows were {done}:", *refused]))


async def estimate(
    pipeline: Pipeline, source: str, s3: Any, refusals: Refusals
) -> dict[str, Any]:
    """Split the whole source, and return the counts and the first labels."""
    labels: list[str] = []
    chunks = size = 0
    async for chunk in chunk_inputs(source, pipeline, s3=s3, refusals=refusals):
        chunks += 1
        size += len(chunk.payload)
        if len(labels) < FIRST_LABELS:
            labels.append(chunk.label)
    each = pipeline.calls_per_chunk
    limits = load_settings()
    return {
        "pipeline": pipeline.name,
        "source": source,
        "chunks": chunks,
        "calls": None if each is None else each * chunks,
        **refusals.facts(),
        "payload_bytes": size,
        "first_labels": labels,
        "stages": [
            {"stage": stage.name, "timeout_s": stage.timeout}
            for stage in pipeline.stages
        ],
        "lanes": lane_prices(pipeline),
        "advice": lint_stage_order(pipeline),
        "warnings": missing_contacts(pipeline),
        "limits": {
            "max_runtime_s": limits.max_runtime_s,
            "stall_timeout_s": limits.stall_timeout_s,
        },
    }


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """The arguments of `submit`."""

    name: str
    pipeline: Pipeline
    source: str
    job_id: str | None
    deadline: str = ""
    tolerate: str = "0"
    priority: str = ""
    budget_usd: str = ""
    budget_tokens: str = ""
    sample: int | None = None
    goes_on: bool = False
    pin: bool = False
    invalid: OnInvalid = OnInvalid.REFUSE
    lane: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """The module of the pipeline, for the `--pipelines` option of a worker."""
        return self.name.partition(":")[0]


def check_options(job_id: str | None, *, wait: bool, timeout: str) -> float | None:
    """Refuse arguments that do not fit together; return the timeout in seconds.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    require_job_id(job_id)
    if timeout and not wait:
        message = "--timeout is valid only with --wait or --sample."
        raise UsageError(message, next_step="Add --wait.")
    return parse_limit(timeout)


async def start_job(
    client: Client,
    out: Output,
    request: SubmitRequest,
    *,
    wait: bool,
    limit_s: float | None,
) -> int:
    """Submit; return the exit code."""
    rt = client.runtime
    job_id = request.job_id or new_job_id(rt.clock())
    job = await submit_with_progress(client, out, replace(request, job_id=job_id))
    say_refused(out, request.invalid, job.refused)
    told: dict[str, Any] = {"warnings": missing_contacts(request.pipeline)}
    if request.sample and (await job.facts()).chunks > request.sample:
        # Most submits have no sample, and do not load prices and forecasts.
        from piecework_orchestrator.cli.forecast import (
            await_forecast,
            goes_on,
            show_forecast,
        )

        began = asyncio.get_running_loop().time()
        told["forecast"] = forecast = await await_forecast(job, out, limit_s)
        if limit_s is not None:  # one limit for both waits
            took_s = asyncio.get_running_loop().time() - began
            limit_s = max(limit_s - took_s, 0.0)
        if out.table:
            show_forecast(out, forecast)
        started = await goes_on(job, out, yes=request.goes_on)
        wait = wait and started
        if out.table and not wait:
            return 0
    if wait:
        if not job.created:
            out.say(f"job {job.id} exists with the same content")
        return await wait_for(
            rt, out, job.id, module=request.module, limit_s=limit_s, told=told
        )
    show_facts(out, await job.facts(), {"new": job.created, **told})
    return 0


async def submit_with_progress(
    client: Client, out: Output, request: SubmitRequest
) -> JobHandle[Any]:
    """Submit and show the progress; if interrupted, name the next command."""
    steps: dict[str, int] = {}
    job = request.job_id
    try:
        with show_steps(out) as progress:

            def report(step: str, done: int) -> None:
                steps[step] = done
                if done:
                    progress(step, done)

            return await client.submit(
                request.pipeline,
                request.source,
                id=job,
                deadline=request.deadline or None,
                tolerate=request.tolerate,
                priority=request.priority,
                sample=request.sample,
                goes_on=request.goes_on,
                pin=request.pin,
                invalid=request.invalid,
                lane=request.lane,
                tags=request.tags,
                budget_usd=request.budget_usd,
                budget_tokens=request.budget_tokens,
                on_progress=report,
            )
    except (asyncio.CancelledError, StoreError):
        if steps.keys() - {"read"}:  # only then the job may exist
            sure = any(done for step, done in steps.items() if step != "read")
            was = "was created;" if sure else "may have been created; if so,"
            out.say(
                f"job {job} {was} a reconciler will finish its submit; "
                f"next: piecework jobs watch {job}"
            )
        raise
