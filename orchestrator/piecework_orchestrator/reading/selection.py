"""Select dead letters by their job, error code, cause, stage and age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypedDict

from piecework.domain.dead_letter import SELECTED_BY, DeadLetterRow
from piecework.domain.moments import iso
from piecework.domain.records import UNREADABLE, read_optional_text
from piecework.domain.refs import ChunkRef
from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework.store.compensations import UNCOMPENSATED
from piecework.store.dead_letters import is_open
from piecework_orchestrator.reading.job_documents import dead_letters_of, require_job
from piecework_orchestrator.reading.times import parse_span

#: The least digits that name a fingerprint. In 3 % of deployments with 1,000 causes,
#: two causes share these digits. Then both are selected, and a redrive shows them
#: before it asks.
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
        uncompensated: Whether only those with a failed compensation match.
    """

    job: str | None = None
    code: str | None = None
    fingerprint: str | None = None
    stage: str | None = None
    since: str | None = None
    chunks: Sequence[int] | None = None
    closed: bool = False
    uncompensated: bool = False

    def check(self) -> None:
        """Refuse words that no dead letter can match; nothing is read.

        Raises:
            UsageError: `cli.usage.invalid`: `--chunk` without `--job`, or a wrong span.
        """
        if self.chunks and self.job is None:
            message = "--chunk is valid only with --job."
            raise UsageError(message, next_step="Add --job JOB.")
        if self.since is not None:
            parse_span(self.since)

    def matches(
        self, letter: DeadLetterRow, after: str, *, is_damaged: bool = False
    ) -> bool:
        """Return whether a dead letter matches and is not older than an ISO time.

        A damaged attribute matches: an operator must learn of a row that may count.
        """
        names = ("error_code", "dead_lettered_at", "fingerprint", *SELECTED_BY)
        code, at, cause, stage, compensation = (
            read_optional_text(letter.item, name) for name in names
        )
        unknown = {None} if is_damaged else set()
        cause = cause or (code and letter.fingerprint)
        return (
            (self.closed or is_open(letter.item))
            and (self.code is None or code is None or fnmatchcase(code, self.code))
            and (not cause or self.matches_cause(cause))
            and (self.stage is None or stage in {self.stage, *unknown})
            and (at is None or at >= after)
            and (not self.chunks or letter.chunk in self.chunks)
            and (not self.uncompensated or compensation in UNCOMPENSATED | unknown)
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

    Chunks whose letters cannot be read are added to `unreadable`, if what can be read
    of them matches.

    Raises:
        NotFoundError: `job.record.not_found`.
        PermanentError: `runtime.record.unreadable`: one, and `unreadable` is None.
        UsageError: `cli.usage.invalid`: `--chunk` without `--job`.
    """
    wanted.check()
    after = iso(rt.clock() - parse_span(s)) if (s := wanted.since) is not None else ""
    damaged: list[DeadLetterRow] = []
    if wanted.job is None:
        letters = dead_letters_of(rt).all(rt.settings.tenant, damaged)
    else:
        job = await require_job(rt, wanted.job)
        letters = dead_letters_of(rt).of_job(job.ref, damaged)
    found = [letter async for letter in letters if wanted.matches(letter, after)]
    left = [one for one in damaged if wanted.matches(one, after, is_damaged=True)]
    if unreadable is not None:
        unreadable += [letter.ref for letter in left]
    elif left:
        DeadLetterRow.read(left[0].item)  # raises again
    return sorted(found, key=lambda letter: letter.dead_lettered_at, reverse=True)


def left_out(chunks: Sequence[ChunkRef]) -> str:
    """Return the text that names dead letters with damaged rows; empty: none."""
    names = ", ".join(map(str, chunks))
    return names and f"left out, because they cannot be read ({UNREADABLE}): {names}"
