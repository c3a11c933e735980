"""The client of programs, and `piecework.run`: the names under which users import them.

The code is the orchestrator's, which holds all verbs of a job, and that of the models
of AWS. This module only forwards: it is the one exception of the import contracts. A
program imports the code when it uses a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable, Mapping
    from pathlib import Path
    from typing import TypeVar

    from pydantic import BaseModel

    from piecework.declared import PipelineFunction
    from piecework.pipelines import Pipeline
    from piecework_orchestrator.client import (
        AnswerLink,
        AnswerLinks,
        Client,
        DeadLetterRow,
        Done,
        Edit,
        Failed,
        HandOutcome,
        JobFacts,
        JobHandle,
        JobView,
        Redriven,
        RedriveOptions,
        RunAgain,
        SyncClient,
        SyncJob,
        TaskSize,
    )
    from piecework_simulation.local_run import Run

    P = TypeVar("P", bound=BaseModel)
    R = TypeVar("R")
    Rows = (
        Iterable[P | Mapping[str, Any]]
        | AsyncIterable[P | Mapping[str, Any]]
        | str
        | Path
    )

__all__ = [
    "AnswerLink",
    "AnswerLinks",
    "Client",
    "DeadLetterRow",
    "Done",
    "Edit",
    "Failed",
    "HandOutcome",
    "JobFacts",
    "JobHandle",
    "JobView",
    "RedriveOptions",
    "Redriven",
    "RunAgain",
    "SyncClient",
    "SyncJob",
    "TaskSize",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is used."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from piecework_orchestrator import client

    found: object = getattr(client, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted({*globals(), *__all__})


@overload
def run(
    pipeline: PipelineFunction[P, R],
    rows: Rows[P],
    *,
    state: str | Path | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    max_chunks: int | None = None,
    budget_usd: float | str | None = None,
    budget_tokens: int | str | None = None,
    invalid: str = "refuse",
    lane: str = "",
) -> Run[R]: ...
@overload
def run(
    pipeline: Pipeline[P],
    rows: Rows[P],
    *,
    state: str | Path | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    max_chunks: int | None = None,
    budget_usd: float | str | None = None,
    budget_tokens: int | str | None = None,
    invalid: str = "refuse",
    lane: str = "",
) -> Run[Any]: ...
def run(  # noqa: PLR0913 -- options of a run
    pipeline: Pipeline[Any] | PipelineFunction[Any, Any],
    rows: Rows[Any],
    *,
    state: str | Path | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    max_chunks: int | None = None,
    budget_usd: float | str | None = None,
    budget_tokens: int | str | None = None,
    invalid: str = "refuse",
    lane: str = "",
) -> Run[Any]:
    """Run a pipeline over rows in this process, without AWS; return the run.

    `await run` and `run.wait()` return all chunks; `async for` and `for` yield each
    when it ends.

    Args:
        pipeline: It runs with the functions of this program.
        rows: Payloads or mappings, or a path as `piecework run` reads it.
        state: A file that remembers the run. The same call goes on after a crash, and
            pays for no stored answer again. None: memory alone.
        fresh: Forget what the file holds.
        progress: Show a bar; None: in a notebook and on a terminal.
        max_chunks: Rows that run at once.
        budget_usd: The dollars that the calls may cost. Once they are spent, the run
            ends, and the rows that are left have failed as CANCELLED.
        budget_tokens: The same for tokens.
        invalid: As in `Client.submit`.
        lane: As in `Client.submit`.

    Raises:
        UsageError: When the run begins, as `Client.submit`; `run.input.changed`: the
            file holds a run of other rows; `run.state.in_use`,
            `run.state.unwritable`, `run.state.foreign`, `run.state.version`.
    """
    from piecework_simulation.local_run import run_rows

    options = {
        "budget_usd": budget_usd,
        "budget_tokens": budget_tokens,
        "invalid": invalid,
        "lane": lane,
    }
    return run_rows(
        pipeline,
        rows,
        state=state,
        fresh=fresh,
        progress=progress,
        max_chunks=max_chunks,
        options=options,
    )
