"""`pipelines`: list the pipelines, pause one and resume it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from piecework.domain.pause import Pause
from piecework_orchestrator.cli.options import Format, OutputOption, ReasonOption
from piecework_orchestrator.cli.output import Output, facts
from piecework_orchestrator.cli.run import run_client
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.client import Client
from piecework_orchestrator.operate.pipelines import require_name
from piecework_orchestrator.reading.times import count

PipelineArgument = Annotated[
    str, typer.Argument(help="The name of the pipeline, as its code declares it.")
]


def list_pipelines(output: OutputOption = Format.TABLE) -> None:
    """List the pipelines that a worker has, an active job runs, or a pause names."""

    async def run(client: Client, out: Output) -> None:
        columns = [
            Column("PIPELINE", "pipeline"),
            Column("WORKERS", "workers", right=True),
            Column("ACTIVE JOBS", "jobs", right=True),
            Column("PAUSED", pause_text, shrinks=True),
        ]
        empty = "no worker or active job is known; next: piecework worker --help"
        found = await client.pipelines()
        out.rows(found, columns, empty)
        if out.table and any(row["workers"] is None for row in found):
            out.say("this AWS role cannot read the workers, which serve all tenants")

    run_client(run, output)


def pause_pipeline(
    pipeline: PipelineArgument,
    reason: ReasonOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Pause a pipeline: no further call of its jobs starts.

    Its running jobs become PAUSED, and so does each job that starts meanwhile. Calls
    in flight finish, and no attempt is spent. Deadlines go on. `pipelines resume` ends
    the pause.
    """

    async def run(client: Client, out: Output) -> None:
        document = await client.pause_pipeline(pipeline, reason)
        show(out, document, "paused")
        replaced = document["replaced"]
        earlier = pause_text({"pause": replaced}) if replaced else ""
        say_pause(out, document, earlier, f"worker or active job has {pipeline!r}")

    run_client(run, output, before=lambda: require_name(pipeline))


def resume_pipeline(
    pipeline: PipelineArgument,
    reason: ReasonOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Resume a paused pipeline, and the jobs that it has paused.

    A job that was paused for another reason stays paused.
    """

    async def run(client: Client, out: Output) -> None:
        show(out, await client.resume_pipeline(pipeline, reason), "resumed")

    run_client(run, output, before=lambda: require_name(pipeline))


def show(out: Output, document: dict[str, Any], verb: str) -> None:
    """Write the state of a pipeline after a change, and the jobs that followed."""
    shown = {"pipeline": document["pipeline"], "paused": pause_text(document)}
    out.document(document, lambda console: console.print(facts(shown.items())))
    if out.table:
        jobs = document["followed"]
        named = ": " * bool(jobs) + ", ".join(jobs[:8])
        out.say(f"{verb} {count(len(jobs), 'job')}{named}")


def say_pause(
    out: Output, document: dict[str, Any], replaced: str, knows_it: str
) -> None:
    """Say that a pause replaced another one, or that nothing knows its name.

    `replaced`: the earlier pause; empty: there was none. The rest: as `say_unknown`.
    """
    if replaced and out.table:
        out.say(f"it was paused already: {replaced}; this reason replaces it")
    say_unknown(out, document, knows_it)


def say_unknown(out: Output, document: dict[str, Any], knows_it: str) -> None:
    """Say that nothing knows the name that a command has changed.

    Args:
        out: The terminal; the document has it in other formats.
        document: The document of the change.
        knows_it: What would know the name, as it continues a sentence after "no".
    """
    if not document["known"] and out.table:
        similar = ", ".join(document["similar"])
        known = f"; similar names: {similar}" if similar else ""
        out.say(f"no {knows_it}: check the name{known}")


def pause_text(document: Any) -> str:
    """Return why, by whom and since when a pipeline is paused."""
    if document["pause"] is None:
        return "-"
    pause = Pause(**document["pause"])
    return f"{pause.why} (by {pause.actor} at {pause.at})"
