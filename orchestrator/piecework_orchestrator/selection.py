"""Select dead letters by their job, error code, cause, stage and age."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypedDict

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.model import ChunkRef, iso
from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework.store.dead_letters import OPEN, DeadLetters
from piecework_orchestrator.inspector import require_job
from piecework_orchestrator.times import parse_span

#: The least digits that name a fingerprint. Of 1,000 causes, two share them in 3 % of
#: deployments; then both are selected, and a redrive shows them before it asks.
FINGERPRINT_DIGITS = 6


class LetterFilter(TypedDict, total=False):
    """The filters of dead letters that a program passes by keyword; see `Filter`."""

    code: str | None
    fingerprint: str | None
    stage: str | None
    since: str | None
    chunks: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Filter:
    """Filters of dead letters; a filter that is None matches all.

    Attributes:
        code: An error code; `llm.*` matches all that begin with `llm.`.
        fingerprint: A cause, as `piecework dlq stats` shows it: its first digits.
        stage: The stage in which the chunks died.
        since: The span of time within which they died, such as `1h`.
        chunks: The numbers of the chunks; empty: all.
        closed: Whether redriven and discarded dead letters match too.
    """

    job: str | None = None
    code: str | None = None
    fingerprint: str | None = None
    stage: str | None = None
    since: str | None = None
    chunks: Sequence[int] | None = None
    closed: bool = False

    def matches(self, letter: DeadLetterRow, after: str) -> bool:
        """Return whether a dead letter matches and is not older than an ISO time."""
        return (
            (self.closed or letter.state == OPEN)
            and (self.code is None or fnmatchcase(letter.error_code, self.code))
            and self.matches_cause(letter.fingerprint)
            and self.stage in {None, letter.stage}
            and letter.dead_lettered_at >= after
            and (not self.chunks or letter.chunk in self.chunks)
        )

    def matches_cause(self, fingerprint: str) -> bool:
        """Return whether a fingerprint is the wanted one, or begins with its digits."""
        if self.fingerprint is None:
            return True
        enough = len(self.fingerprint) >= FINGERPRINT_DIGITS
        return enough and fingerprint.startswith(self.fingerprint)


async def select(
    rt: Runtime, wanted: Filter, unreadable: list[ChunkRef] | None = None
) -> list[DeadLetterRow]:
    """Return the dead letters that match, the newest first.

    Chunks whose letters cannot be read are added to `unreadable`; None: one raises.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `cli.usage.invalid`: `--chunk` without `--job`.
    """
    if wanted.chunks and wanted.job is None:
        message = "--chunk is valid only with --job."
        raise UsageError(message, next_step="Add --job JOB.")
    after = iso(rt.clock() - parse_span(s)) if (s := wanted.since) is not None else ""
    found = [
        letter
        async for letter in candidates(rt, wanted, unreadable)
        if wanted.matches(letter, after)
    ]
    return sorted(found, key=lambda letter: letter.dead_lettered_at, reverse=True)


async def candidates(
    rt: Runtime, wanted: Filter, unreadable: list[ChunkRef] | None
) -> AsyncIterator[DeadLetterRow]:
    """Yield the dead letters of the job, or of the tenant."""
    letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    if wanted.job is None:
        found = letters.all(rt.settings.tenant, unreadable)
    else:
        job = await require_job(rt, wanted.job)
        found = letters.of_job(job.ref, unreadable)
    async for letter in found:
        yield letter
