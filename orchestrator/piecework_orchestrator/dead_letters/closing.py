"""Select open dead letters, and redrive or discard them, of one job or of several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from types import MappingProxyType
from typing import Final

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.refs import ChunkRef, JobRef
from piecework.errors import NotFoundError, PieceworkError, UsageError
from piecework.runtime import Runtime
from piecework.store.dead_letters import Closing
from piecework_orchestrator.dead_letters.canary import (
    CanaryRequest,
    Verdict,
    WaveResult,
    redrive_canary,
)
from piecework_orchestrator.dead_letters.redrive import (
    NOTHING_LEFT,
    Edit,
    RedriveRequest,
    describe_skipped,
    discard,
    redrive,
)
from piecework_orchestrator.operate.retry import RetryRequest, require_reopenable
from piecework_orchestrator.operate.run_again import RunAgain
from piecework_orchestrator.reading.selection import Filter, left_out, select

#: The jobs that a redrive refuses for one of their chunks, by default.
NONE_REFUSED: Final[Mapping[JobRef, UsageError]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Selection:
    """The dead letters to close, the oldest first."""

    letters: Sequence[DeadLetterRow]

    @property
    def by_job(self) -> dict[JobRef, list[DeadLetterRow]]:
        """The dead letters of each job."""
        jobs: dict[JobRef, list[DeadLetterRow]] = defaultdict(list)
        for letter in self.letters:
            jobs[letter.job].append(letter)
        return jobs

    def __str__(self) -> str:
        """Return the number of dead letters and jobs, in words."""
        letters, jobs = len(self.letters), len(self.by_job)
        return (
            f"{letters} dead letter{'s' * (letters != 1)} of "
            f"{jobs} job{'s' * (jobs != 1)}"
        )


async def select_open(
    rt: Runtime,
    wanted: Filter,
    unreadable: list[ChunkRef] | None = None,
    limit: int = 0,
) -> Selection:
    """Find the newest dead letters to close, the oldest first; limit 0 selects all.

    They are those that `dlq list` shows with the same limit. `unreadable` is as in
    `select`.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `redrive.selection.empty`.
    """
    found = (await select(rt, wanted, unreadable))[::-1]
    if not found:
        message = "No open dead letter matches the filters"
        if wanted.uncompensated:
            message = "No open dead letter that matches has a failed compensation"
        message += f"; {left_out(unreadable)}." if unreadable else "."
        one = f"`piecework dlq list --job {wanted.job}`"
        step = one if wanted.job else "`piecework dlq list`"
        raise UsageError(message, code=NOTHING_LEFT, next_step=step)
    return Selection(found[-limit:])


def require_reason(reason: str, verb: str, selection: Selection) -> None:
    """Refuse to close dead letters without a reason, which the record keeps.

    Raises:
        UsageError: `cli.reason.missing`.
    """
    if not reason.strip():
        message = f"`--reason` is required to {verb} {selection}."
        step = "Add --reason 'what was fixed, or why they are discarded'."
        raise UsageError(message, code="cli.reason.missing", next_step=step)


@dataclass(frozen=True, slots=True)
class RedriveOptions:
    """How dead letters are redriven; by default all at once, with their payloads.

    Attributes:
        edit: The change of their payloads; None: the payloads stay.
        rate: Chunks dispatched a second; None: all at once.
        canary: The size of the first wave; 0: redrive all at once.
        timeout_s: Seconds to wait for all waves together; None: no limit.
        again: The completed stage from which they run again; None: they keep all.
        on_wave: Receives the result of each wave.
        remark: Receives what an operator should know: a skipped job, no worker.
    """

    edit: Edit | None = None
    rate: float | None = None
    canary: int = 0
    timeout_s: float | None = None
    on_wave: Callable[[WaveResult], None] = lambda _: None
    remark: Callable[[str], None] = lambda _: None
    again: RunAgain | None = None


AT_ONCE: Final = RedriveOptions()


@dataclass(frozen=True, slots=True)
class RedrivenJob:
    """A job with redriven dead letters, and its new generation."""

    job: str
    redriven: int
    gen: int


@dataclass(frozen=True, slots=True)
class Redriven:
    """The result of a redrive.

    Attributes:
        jobs: The jobs that were redriven at once; empty with a canary.
        waves: The results of the waves of a canary.
        verdict: Why a canary stopped; CONTINUE: only letters of skipped jobs remain.
        remaining: The number of selected dead letters that a canary left.
    """

    jobs: Sequence[RedrivenJob] = ()
    waves: Sequence[WaveResult] = field(default_factory=list)
    verdict: Verdict = Verdict.CONTINUE
    remaining: int = 0

    @property
    def count(self) -> int:
        """The number of redriven dead letters."""
        at_once = sum(job.redriven for job in self.jobs)
        return at_once + sum(wave.redriven for wave in self.waves)


async def redrive_selected(
    rt: Runtime,
    selection: Selection,
    closing: Closing,
    options: RedriveOptions = AT_ONCE,
) -> Redriven:
    """Redrive dead letters: all at once job by job, or in the waves of a canary.

    Raises:
        UsageError: `cli.reason.missing`, `redrive.payload.invalid`; why the last
            job could not be redriven, if no job could.
        WaitTimeoutError: `cli.wait.timeout`; the current wave continues.
    """
    require_reason(closing.reason, "redrive", selection)

    def make_request(ref: JobRef, letters: Sequence[DeadLetterRow]) -> RedriveRequest:
        actor, reason = closing.actor, closing.reason
        return RedriveRequest(
            ref,
            letters,
            actor,
            reason,
            options.rate,
            options.edit,
            again=options.again,
        )

    if not options.canary:
        requests = starmap(make_request, selection.by_job.items())
        return Redriven(await redrive_at_once(rt, list(requests), options.remark))
    request = CanaryRequest(
        selection.letters, make_request, options.canary, options.timeout_s
    )
    done = await redrive_canary(rt, request, options.on_wave, options.remark)
    return Redriven((), done.waves, done.verdict, done.remaining)


async def redrive_at_once(
    rt: Runtime, requests: Sequence[RedriveRequest], remark: Callable[[str], None]
) -> list[RedrivenJob]:
    """Redrive job by job; report a job that cannot be redriven, and continue."""
    done: list[RedrivenJob] = []
    for number, request in enumerate(requests, 1):
        try:
            count, gen = await redrive(rt, request)
        except (UsageError, NotFoundError) as error:
            if number == len(requests) and not done:
                raise
            remark(describe_skipped(request.ref, error))
            continue
        except PieceworkError:
            for job in done:
                remark(f"job {job.job} is redriven, dead letters: {job.redriven}")
            raise
        done.append(RedrivenJob(request.ref.job, count, gen))
    return done


async def leave_out_refused(
    rt: Runtime,
    selection: Selection,
    remark: Callable[[str], None],
    refused: Mapping[JobRef, UsageError] = NONE_REFUSED,
) -> Selection:
    """Return the letters that a redrive takes now; remark on each other job.

    A redrive takes or refuses all selected letters of a job. `refused`: the jobs with a
    chunk that may not run again, and why.

    Raises:
        UsageError, NotFoundError: Why the last job is refused, if each is.
    """
    left: dict[JobRef, UsageError | NotFoundError] = {}
    for ref in selection.by_job:
        try:
            await require_reopenable(rt, RetryRequest(ref, "", ""))
            if ref in refused:
                raise refused[ref]
        except (UsageError, NotFoundError) as error:
            left[ref] = error
    if len(left) == len(selection.by_job):
        raise left.popitem()[1]
    for ref, why in left.items():
        remark(describe_skipped(ref, why))
    kept = [letter for letter in selection.letters if letter.job not in left]
    return Selection(kept)


async def discard_selected(
    rt: Runtime, selection: Selection, closing: Closing
) -> dict[str, int]:
    """Discard dead letters; return how many of each job were still open.

    Raises:
        UsageError: `cli.reason.missing`.
    """
    require_reason(closing.reason, "discard", selection)
    return {
        ref.job: await discard(rt, ref, letters, closing)
        for ref, letters in selection.by_job.items()
    }
