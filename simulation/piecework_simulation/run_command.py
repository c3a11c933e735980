"""`piecework run`: submit, work, print the results and end, all in one process."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer

from piecework import telemetry
from piecework.aws.endpoint import DEFAULT_REGION
from piecework.domain.budget import parse_cap
from piecework.domain.job import Job
from piecework.domain.states import ChunkStatus
from piecework.domain.unstable_key import UnstableKey
from piecework.errors import UsageError
from piecework.loading import load_pipeline, with_mapped
from piecework.pipelines import Pipeline
from piecework.resilience.lanes import parse_override
from piecework.runtime import EMBEDDED_ACCOUNT, Runtime, connect
from piecework.settings import Settings, load_settings
from piecework.telemetry.emit import Listener, listening
from piecework_orchestrator import embedded
from piecework_orchestrator.cli.app import run_alone
from piecework_orchestrator.cli.global_options import CONTEXT, command_class
from piecework_orchestrator.cli.options import (
    BudgetTokensOption,
    BudgetUsdOption,
    Format,
    InvalidOption,
    LaneOption,
    MaxChunksOption,
    PipelineArgument,
    SaveOption,
)
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.progress import exit_code, show_progress
from piecework_orchestrator.cli.results import ResultErrors, follow_results
from piecework_orchestrator.cli.run import LOG_LEVEL, run_async
from piecework_orchestrator.cli.submit import say_refused
from piecework_orchestrator.client import Client, JobHandle
from piecework_orchestrator.reading.job_documents import job_document
from piecework_orchestrator.results.artifacts import save_artifacts
from piecework_orchestrator.results.results import EndedChunk
from piecework_orchestrator.submit.intake.on_invalid import OnInvalid
from piecework_orchestrator.submit.intake.source import STDIN
from piecework_simulation.in_process import (
    InProcessAws,
    RunningWorker,
    run_worker,
    worker_beside,
)
from piecework_simulation.run_end import POLL_S, end_at_budget, show_end
from piecework_simulation.state.place import ASKED, content_digest, state_path
from piecework_simulation.state.remembered import (
    JOURNAL_FLUSH_S,
    Remembered,
    remembering,
    submit_once,
)
from piecework_worker.stopping import SignalThread, leave, stop_on_signals
from piecework_worker.worker import SHUTDOWN_MARGIN_S

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)

#: Threads besides those of the stages, for host names.
SPARE_THREADS = 8
#: The option of each budget, by its name for a submit.
BUDGETS = {"budget_usd": "--budget-usd", "budget_tokens": "--budget-tokens"}
#: The reason of the answers that an option gives.
REASON = "--answer of `piecework run`"


class Aws(StrEnum):
    """The values of `--aws`."""

    IN_PROCESS = "in-process"
    EMBEDDED = "embedded"


FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Start anew: forget an earlier run.")
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FILE",
        help="Keep the run in this file, as long as you want.",
        dir_okay=False,
        show_default="a file in XDG_STATE_HOME until all rows have succeeded",
    ),
]
NoStateOption = Annotated[
    bool, typer.Option("--no-state", help="Keep the run in memory alone.")
]


WorkersOption = Annotated[
    int,
    typer.Option("--workers", min=1, max=64, help="Processes that run rows."),
]


@app.command(cls=command_class("run"), context_settings=CONTEXT)
def run(  # noqa: PLR0913, PLR0917 -- options of a command
    pipeline: PipelineArgument,
    source: Annotated[
        str,
        typer.Argument(
            help="A document, a directory, a .jsonl, .csv or .parquet file, or `-`."
        ),
    ],
    save: SaveOption = None,
    max_chunks: MaxChunksOption = None,
    budget_usd: BudgetUsdOption = "",
    budget_tokens: BudgetTokensOption = "",
    invalid: InvalidOption = OnInvalid.REFUSE,
    lane: LaneOption = "",
    answer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=JSON",
            help="Answer each question of this name, such as "
            "approval='{\"approved\": true}'.",
            show_default="questions wait for their time",
        ),
    ] = None,
    aws: Annotated[
        Aws,
        typer.Option(
            help="`in-process`: AWS in the memory of this process; `embedded`: the "
            "embedded AWS, which is stopped if this command started it."
        ),
    ] = Aws.IN_PROCESS,
    fresh: FreshOption = False,
    state: StateOption = None,
    no_state: NoStateOption = False,
    workers: WorkersOption = 1,
) -> None:
    """Run a pipeline here and print the results.

    Everything runs in this process, and nothing is installed. Each result is a line.
    The run is remembered until all rows have succeeded: after an interruption the same
    line goes on. It pays for no stored answer again, and prints all results. Without
    --save, artifacts of the join are not kept. Once a budget is spent, the run ends:
    its last line says how many chunks are done and how many are left. The exit code is
    then 4. Rows that compute for long are faster with a worker for each core: each
    --workers above 1 is a process of its own.
    """

    async def main(out: Output) -> int:
        if LOG_LEVEL not in os.environ:  # the end of the run tells the errors
            telemetry.configure("critical", stream=out.stderr)
        overrides: dict[str, Any] = {"max_code_waits": 0}  # all workers have this code
        overrides |= {} if max_chunks is None else {"max_chunks": max_chunks}
        settings = load_settings(**overrides)
        found = load_pipeline(pipeline)
        path = where_to_remember(
            pipeline, source, settings, state, is_off=no_state, aws=aws
        )
        if path is not None:
            settings = load_settings(**overrides, journal_flush_s=JOURNAL_FLUSH_S)
        require_models(aws, workers)
        parse_cap(budget_usd, budget_tokens)  # refuse it before a worker starts
        options = {
            "budget_usd": budget_usd,
            "budget_tokens": budget_tokens,
            "invalid": invalid,
            "lane": parse_override(lane),
        }
        answers = read_answers(answer or [])
        log = structlog.get_logger()
        within_s = settings.shutdown_grace_s + SHUTDOWN_MARGIN_S
        signals = stop_on_signals(log, within_s)
        keeps = state is not None
        with (
            threads(settings),
            listening(advice(out)),
            remembering(path, keeps=keeps, fresh=fresh, say=out.say) as memory,
        ):
            if memory is not None:  # printed commands name it
                out.state = str(memory.file.path)
            what = (pipeline, found, source, save, options, answers, memory)
            wanted = Wanted(*what, workers=workers)
            async with start_worker(out, settings, aws, wanted) as (rt, running):
                work = run_job(out, rt, running.task, wanted)
                code = await end_on_signal(out, signals, running, work, memory)
            out.stdout.flush()  # before a run that is over is forgotten
        return code

    run_async(
        main,
        Format.JSONL,
        plain_errors=True,
        before=lambda: load_pipeline(pipeline),
        end=leave,
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asks for.

    Attributes:
        name: The pipeline as the user typed it.
        save: The folder for the artifacts of the join; None: they are not kept.
        options: Those of the submit.
        answers: The answer to each question that an option names.
        memory: The state file; None: the run is not remembered.
        workers: The processes that run rows; this one is the first.
    """

    name: str
    pipeline: Pipeline
    source: str
    save: Path | None
    options: Mapping[str, Any]
    answers: dict[str, Any]
    memory: Remembered | None
    workers: int = 1


#: The commands that run rows, by the files that start them.
COMMANDS = {"run_command.py": "piecework run", "ask_command.py": "piecework ask"}


def typed_line() -> str:
    """Return the line that the user typed; empty: another program runs this one."""
    command = COMMANDS.get(Path(sys.argv[0]).name, "")
    return command and f"{command} {shlex.join(sys.argv[1:])}"


def advice(out: Output) -> Listener:
    """Return what tells events that ask for a change of the code; no log tells them."""

    def tell(name: str, fields: Mapping[str, Any]) -> None:
        if name == "limits.undeclared":
            who, step = fields["dependency"], fields["next_step"]
            out.say(f"{who} refuses calls (429) and has no limit; next: {step}")
        elif name == "model.answer_mended":
            out.say(f"an answer of {fields['dependency']}: {fields['note']}")
        elif name == "call.key_unstable":
            out.say(UnstableKey.read(fields).words)
        elif name == "worker.process_replaced":
            number, code = fields["number"], fields["exit_code"]
            out.say(f"worker {number} ended ({code}), and is started again")

    return tell


def where_to_remember(
    pipeline: str,
    source: str,
    settings: Settings,
    named: Path | None,
    *,
    is_off: bool,
    aws: Aws,
) -> Path | None:
    """Return the state file of a run; None: it has none.

    Raises:
        UsageError: `cli.usage.invalid`: --state goes with another option.
    """
    if named is not None and (is_off or aws is Aws.EMBEDDED):
        other = "--no-state" if is_off else "--aws embedded"
        message = f"--state and {other} exclude each other."
        raise UsageError(message, next_step="Remove one of the two options.")
    if is_off or aws is Aws.EMBEDDED:
        return None
    if named is not None:
        return named.absolute()
    # What standard input held cannot be read again.
    return None if source == STDIN else state_path(pipeline, source, settings)


def require_models(aws: Aws, workers: int) -> None:
    """Raise if further workers are wanted beside the embedded AWS.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if workers > 1 and aws is Aws.EMBEDDED:
        message = "--workers and --aws embedded exclude each other."
        step = "Run `piecework up`, and as many `piecework worker` as you want."
        raise UsageError(message, next_step=step)


async def end_on_signal(
    out: Output,
    signals: SignalThread,
    running: RunningWorker,
    work: Coroutine[Any, Any, int],
    memory: Remembered | None,
) -> int:
    """Do the work until a signal; return the exit code.

    After the signal, the running chunks may end within the grace, and their results
    are printed. Ctrl-C interrupts them at once. So does a state file that cannot be
    written.
    """
    failed = asyncio.get_running_loop().create_future()
    if memory is not None:
        memory.file.on_failure = failed.set_exception
    keeping = asyncio.create_task(signals.keep_handlers())
    stopped = asyncio.create_task(signals.stop.wait())
    working = asyncio.create_task(work)
    try:
        ends: set[asyncio.Future[Any]] = {working, stopped, failed}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            running.worker.grace_s = 0.0
            return int(await failed)
        if not working.done():
            if signals.stop.signal == signal.SIGINT.name:
                running.worker.grace_s = 0.0
            running.stop()
            await asyncio.wait({working})
        if working.cancelled():
            out.tell("interrupted")
            if memory is not None:
                out.say(f"the same line goes on; the run is in {memory.file.path}")
            return 128 + signal.Signals[signals.stop.signal]
        return working.result()
    finally:
        for task in (keeping, stopped, working):
            task.cancel()


@contextmanager
def threads(settings: Settings) -> Iterator[None]:
    """Make the loop's pool as large as plain stage functions need; await no thread."""
    pool = ThreadPoolExecutor(settings.max_chunks + SPARE_THREADS)
    asyncio.get_running_loop().set_default_executor(pool)
    try:
        yield
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@asynccontextmanager
async def start_worker(
    out: Output, settings: Settings, aws: Aws, wanted: Wanted
) -> AsyncIterator[tuple[Runtime, RunningWorker]]:
    """Run a worker on AWS of one kind; yield a runtime beside it, and the worker."""
    pipeline = wanted.pipeline
    pipelines, names = with_mapped([pipeline]), [wanted.name.partition(":")[0]]
    if aws is Aws.IN_PROCESS:
        bucket = settings.bucket(EMBEDDED_ACCOUNT, DEFAULT_REGION)
        models = InProcessAws(settings, bucket)
        if wanted.memory is not None:
            digest = content_digest(wanted.source)
            what = (models, pipeline, wanted.source, digest, out.say, typed_line())
            question = names[0] if names[0].startswith(ASKED) else ""
            await wanted.memory.go_on(*what, question=question)
        async with worker_beside(models, pipelines, names) as first:
            if wanted.workers == 1:
                yield models.runtime(), first
                return
            # Loaded here: it serves AWS, which one worker does not need.
            from piecework_simulation.further_workers import workers_beside

            beside = workers_beside(models, first, names[0], wanted.workers)
            async with beside as worker:
                yield models.runtime(), worker
        return
    with embedded.started(
        settings.app,
        settings.env,
        [pipeline.queue] if pipeline.queue else [],
        report=out.say,
    ):
        async with (
            connect(settings, actor="worker") as own,
            connect(settings) as rt,
            run_worker(own, pipelines, names) as worker,
        ):
            yield rt, worker


async def run_job(
    out: Output, rt: Runtime, worker: asyncio.Task[None], wanted: Wanted
) -> int:
    """Submit, answer questions and print the results; return the exit code."""
    options, memory = wanted.options, wanted.memory
    async with Client(runtime=rt) as client:
        submit = (client, wanted.pipeline, wanted.source, options)
        job = await submit_once(*submit, memory)
        spent = asyncio.Event()
        say_refused(out, options["invalid"], job.refused)
        following = asyncio.create_task(follow(out, rt, job, spent))
        beside = [asyncio.create_task(answer_questions(out, job, wanted.answers))]
        if options["budget_usd"] or options["budget_tokens"]:
            beside.append(asyncio.create_task(end_at_budget(out.say, rt, job, spent)))
        following.add_done_callback(lambda _: [task.cancel() for task in beside])
        alive = {worker, following, *beside}
        await asyncio.wait(alive, return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            if worker.done():  # its last results are on their way
                await asyncio.wait({following}, timeout=4 * POLL_S)
            following.cancel()
            for task in alive - {following}:
                if task.done():
                    task.result()  # raises the error that ended it
        record, errors = await following
        if wanted.save is not None:
            await save_artifacts(rt, record, wanted.save, out.say)
        await show_end(out, rt, record, is_spent=spent.is_set())
        if memory is not None:
            budgets = [BUDGETS[name] for name in BUDGETS if options[name]]
            ended_by = budgets if spent.is_set() else []
            await memory.end(rt, record, out.say, spent=ended_by)
        document = await job_document(rt, record)
        return errors or exit_code(document)


def read_answers(given: list[str]) -> dict[str, Any]:
    """Return the answer to each question that an option names.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    answers = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            answers[name] = json.loads(value)
        except ValueError as error:
            message = f"--answer {text} is not NAME=JSON: {error}."
            step = "Quote it: --answer approval='{\"approved\": true}'."
            raise UsageError(message, next_step=step) from error
    return answers


async def answer_questions(
    out: Output, job: JobHandle[Any], answers: dict[str, Any]
) -> None:
    """Answer the questions of the job as the command was told; name each other one."""
    named: set[str] = set()
    refused: set[tuple[int, str]] = set()
    while True:
        async for question in job.questions():
            chunk, full_name = question["chunk"], question["question"]
            name = full_name.partition("#")[0]  # a later one of a stage has a number
            if name in answers and (chunk, full_name) not in refused:
                try:
                    await job.answer(chunk, answers[name], REASON, question=full_name)
                    continue
                except UsageError as error:
                    out.say(f"question {full_name}: {error.message}")
                    refused.add((chunk, full_name))
            if name not in named:
                named.add(name)
                until = question["until"]
                out.say(f"question {name} waits until {until}; --answer {name}=JSON")
        await asyncio.sleep(POLL_S)


async def follow(
    out: Output, rt: Runtime, job: JobHandle[Any], spent: asyncio.Event
) -> tuple[Job, int]:
    """Print each result when its chunk ends; return the job and the exit code.

    A chunk that a spent budget leaves has not ended for the user: it has no line.
    """
    errors = ResultErrors(out)

    def is_left(ended: EndedChunk) -> bool:
        return spent.is_set() and ended.chunk.status is ChunkStatus.CANCELLED

    with show_progress(out, "no chunk was started yet") as watcher:
        shown = watcher.on_progress
        # Its last line would say CANCELLED; `show_end` says what is done.
        watcher.on_progress = lambda now: None if spent.is_set() else shown(now)
        record = await follow_results(
            rt, out, job.id, errors, watcher, POLL_S, leave_out=is_left
        )
    return record, errors.code


if __name__ == "__main__":
    run_alone(app, "piecework run")
