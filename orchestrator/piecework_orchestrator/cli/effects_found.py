"""`effects resolve` of many effects at once: those of a filter, or of a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from piecework.errors import NotFoundError, UsageError
from piecework_orchestrator.cli.options import EffectOutcome, Format, parse_chunk
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import confirm, run_client
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.client import Client
from piecework_orchestrator.client.job import JobHandle
from piecework_orchestrator.dead_letters.letters import chunk_name
from piecework_orchestrator.operate.effects import require_reason
from piecework_orchestrator.reading.times import count

#: The state of an effect in the answer, if the command could not resolve it.
REFUSED_ROW = "NOT RESOLVED"
RESOLVED = [
    Column("CHUNK", lambda row: chunk_name(row["chunk"]), right=True),
    Column("KEY", lambda row: str(row["effect_key"])[:16]),
    Column("STATE", "state"),
    Column("WHY", "why", folds=True),
]


@dataclass(frozen=True, slots=True)
class Many:
    """Effects in doubt that one command resolves: those of a filter, or of a file."""

    chunk: str
    key: str
    stage: str
    dependency: str
    file: Path | None
    every: bool
    correct: bool

    @property
    def is_meant(self) -> bool:
        """Whether the command means more than one effect."""
        return self.every or self.file is not None

    def require_fitting(self) -> None:
        """Require that the options fit together.

        Raises:
            UsageError: `cli.usage.invalid`.
        """
        filtered = bool(self.stage or self.dependency)
        of_file = self.file is not None
        if self.every:
            fits = not (self.key or of_file or self.correct)
        elif of_file:
            fits = not (self.chunk or filtered or self.correct)
        else:
            fits = bool(self.key) and not filtered
        if self.every and self.correct:
            message = "--correct replaces the resolution of one effect, not of --all."
            step = "Name the effect by CHUNK and KEY, without --all."
            raise UsageError(message, next_step=step)
        if not fits:
            message = "Name one effect by CHUNK and KEY, or several by --all or --file."
            step = "--stage, --dependency and CHUNK narrow --all; --file needs no more."
            raise UsageError(message, next_step=step)

    def resolve(
        self,
        job: str,
        outcome: EffectOutcome | None,
        answer: str | None,
        reason: str,
        *,
        yes: bool,
        output: Format,
    ) -> None:
        """Resolve each effect; a refused one does not stop the others.

        Raises:
            UsageError: `job.effect.not_resolved`: some were refused.
        """

        def check() -> list[Found]:
            self.require_fitting()
            require_reason(reason)
            if self.file is not None:
                return read_findings(self.file, outcome, answer)
            read_answer(answer, outcome)
            return []

        async def run(client: Client, out: Output) -> None:
            handle, found = client.job(job), check()
            await handle.facts()
            if self.every:
                value = read_answer(answer, outcome)
                happened = outcome is EffectOutcome.HAPPENED
                rows = await self.listed(handle)
                found = [
                    Found(row["chunk"], row["effect_key"], happened, value)
                    for row in rows
                ]
            if not found:
                out.rows([], RESOLVED, "no effect is in doubt")
                return
            number = count(len(found), "effect")
            await confirm(f"Record the outcome of {number} of {job}", out, yes=yes)
            rows = [await found_as(handle, each, reason) for each in found]
            out.rows(rows, RESOLVED, "")
            if refused := sum(row["state"] == REFUSED_ROW for row in rows):
                verb = "was" if refused == 1 else "were"
                message = (
                    f"{refused} of {count(len(rows), 'effect')} {verb} not resolved."
                )
                step = "WHY names the cause of each. Mend it, and resolve those again."
                code = "job.effect.not_resolved"
                raise UsageError(message, code=code, next_step=step)

        run_client(run, output, before=check)

    async def listed(self, handle: JobHandle[Any]) -> list[dict[str, Any]]:
        """Return the effects in doubt that the filter lets through.

        Raises:
            NotFoundError: `job.effect.not_found`: none in doubt is let through.
        """
        only = parse_chunk(self.chunk) if self.chunk else None
        rows = [row async for row in handle.effects(only)]
        found = [
            row
            for row in rows
            if self.stage in {"", row["stage"]}
            and self.dependency in {"", row.get("dependency")}
        ]
        if rows and not found:
            where = sorted({f"{row['stage']} ({row['dependency']})" for row in rows})
            message = f"No effect in doubt matches; they are of {', '.join(where)}."
            step = "Name one of these stages by --stage, or its --dependency."
            raise NotFoundError(message, code="job.effect.not_found", next_step=step)
        return found


@dataclass(frozen=True, slots=True)
class Found:
    """What an operator found out about one effect."""

    chunk: int
    key: str
    happened: bool
    answer: Any = None
    line: int = 0


async def found_as(handle: JobHandle[Any], found: Found, reason: str) -> dict[str, Any]:
    """Resolve one effect of several; return its row of the answer."""
    row = {"chunk": found.chunk, "effect_key": found.key, "why": ""}
    try:
        done = await handle.resolve_effect(
            found.chunk,
            found.key,
            reason,
            happened=found.happened,
            answer=found.answer,
        )
    except (UsageError, NotFoundError) as error:
        where = f"Line {found.line}: " if found.line else ""
        return row | {"state": REFUSED_ROW, "why": f"{where}{error}"}
    return row | {"effect_key": done["effect_key"], "state": done["state"]}


def read_findings(
    path: Path, outcome: EffectOutcome | None, answer: str | None
) -> list[Found]:
    """Return the findings of a file, one a line.

    Raises:
        UsageError: `cli.usage.invalid`: there is no line, one cannot be read, two name
            the same effect, or an option says it, too.
    """
    if outcome is not None or answer is not None:
        message = "With --file each line has its outcome, and no option does."
        raise UsageError(message, next_step="Remove --outcome and --answer.")
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path} cannot be read: {type(error).__name__}."
        raise UsageError(message, next_step="Name a readable file.") from error
    found = [
        read_finding(path, number, line)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not found:
        message = f"{path} has no line."
        step = "Write one JSON object a line, for each effect."
        raise UsageError(message, next_step=step)
    # A key sorts directly before one that begins with it.
    for one, two in pairwise(sorted(found, key=lambda each: (each.chunk, each.key))):
        if one.chunk == two.chunk and two.key.startswith(one.key):
            first, last = sorted((one.line, two.line))
            message = f"Lines {first} and {last} of {path} name the same effect."
            raise UsageError(message, next_step="Keep the line that is right.")
    return found


def read_finding(path: Path, number: int, line: str) -> Found:
    """Return the finding of a line.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    step = 'Write {"chunk": 4, "effect_key": "5f0c", "outcome": "did-not-happen"}.'
    try:
        row = json.loads(line)
        outcome = EffectOutcome(row["outcome"])
        chunk, key = parse_chunk(str(row["chunk"])), row["effect_key"]
    except (ValueError, KeyError, TypeError) as error:
        message = f"Line {number} of {path} cannot be read."
        raise UsageError(message, next_step=step) from error
    happened = outcome is EffectOutcome.HAPPENED
    if happened is not ("answer" in row) or not (isinstance(key, str) and key):
        message = (
            f"Line {number} of {path} needs `effect_key`, and `answer` if it happened."
        )
        raise UsageError(message, next_step=step)
    return Found(chunk, key, happened, row.get("answer"), number)


def read_answer(answer: str | None, outcome: EffectOutcome | None) -> Any:
    """Return the value that the call returned, if the options fit together.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if outcome is None:
        message = "`effects resolve` requires --outcome."
        step = "Check the other system, then add --outcome happened or did-not-happen."
        raise UsageError(message, next_step=step)
    if outcome is not EffectOutcome.HAPPENED:
        if answer is None:
            return None
        message = "--answer is valid only with --outcome happened."
        step = "Remove --answer, or use --outcome happened."
        raise UsageError(message, next_step=step)
    if answer is None:
        message = "--outcome happened requires --answer: the stage continues with it."
        step = "Add the value that the call returned as JSON; null if it returns none."
        raise UsageError(message, next_step=step)
    try:
        return json.loads(answer)
    except ValueError as error:
        message = f"--answer is not JSON: {error}."
        step = "Quote it for the shell: --answer '\"receipt-17\"'."
        raise UsageError(message, next_step=step) from error
