"""Redrive a few dead letters first, and more only if those succeed.

A wave reopens its jobs, each in a new generation. The next wave starts when these jobs
have ended again, because only an ended job can be reopened. So the join of a job runs
after each wave.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.redrive import NOTHING_LEFT, RedriveRequest, redrive
from orchestrator.waiting import Watcher, watch
from orchestrator.waves import Verdict, WaveResult, judge_wave, split_into_waves
from piecework import keys
from piecework.errors import UsageError, WaitTimeoutError
from piecework.model import ChunkStatus, JobRef
from piecework.runtime import Runtime
from piecework.store.table import Item


@dataclass(frozen=True, slots=True)
class CanaryRequest:
    """A canary redrive as the operator requested it.

    Attributes:
        letters: Open dead letters with their fingerprints, of any jobs.
        make_request: Returns the redrive of some dead letters of a job.
        first: The number of dead letters in the first wave.
        timeout_s: Seconds to wait for all split_into_waves together; None: no limit.
    """

    letters: Sequence[Item]
    make_request: Callable[[JobRef, Sequence[Item]], RedriveRequest]
    first: int
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """The result of a canary redrive.

    Attributes:
        remaining: The number of dead letters that were not redriven.
    """

    verdict: Verdict
    waves: list[WaveResult]
    remaining: int


async def canary(
    rt: Runtime,
    request: CanaryRequest,
    on_wave: Callable[[WaveResult], None],
    remark: Callable[[str], None],
) -> CanaryResult:
    """Redrive wave by wave; call `on_wave` with the result of each.

    Raises:
        UsageError: `job.state.not_finished`; `redrive.payload.invalid`.
        WaitTimeoutError: `cli.wait.timeout`; the current wave continues without us.
    """
    loop = asyncio.get_running_loop()
    ends = None if request.timeout_s is None else loop.time() + request.timeout_s
    fingerprints = {letter["fingerprint"] for letter in request.letters}
    results: list[WaveResult] = []
    remaining = len(request.letters)
    verdict = Verdict.CONTINUE
    for letters in split_into_waves(request.letters, request.first):
        gens = await redrive_wave(rt, request, letters)
        remaining -= len(letters)
        for ref in gens:
            timeout_s = None if ends is None else max(ends - loop.time(), 0.0)
            await wait_for_end(rt, ref, remark, timeout_s, remaining)
        results.append(await read_wave_result(rt, letters, gens))
        on_wave(results[-1])
        verdict = judge_wave(results[-1], fingerprints)
        if verdict is not Verdict.CONTINUE:
            break
    return CanaryResult(verdict, results, remaining)


async def wait_for_end(
    rt: Runtime,
    ref: JobRef,
    remark: Callable[[str], None],
    timeout_s: float | None,
    remaining: int,
) -> None:
    """Wait until a job has ended.

    Raises:
        WaitTimeoutError: `cli.wait.timeout`, with the number of remaining letters.
    """
    try:
        await watch(rt, ref.job, Watcher(lambda _: None, remark=remark), timeout_s)
    except WaitTimeoutError as error:
        message = f"{error.message} Dead letters not redriven: {remaining}."
        raise WaitTimeoutError(message, next_step=error.next_step) from error


async def redrive_wave(
    rt: Runtime, request: CanaryRequest, letters: Sequence[Item]
) -> dict[JobRef, int]:
    """Redrive a wave, job by job; return the new generation of each job.

    A job is left out if others have closed all its dead letters since they were listed.
    """
    by_job: dict[JobRef, list[Item]] = defaultdict(list)
    for letter in letters:
        by_job[job_of(letter)].append(letter)
    gens = {}
    for ref, some in by_job.items():
        try:
            _, gens[ref] = await redrive(rt, request.make_request(ref, some))
        except UsageError as error:
            if error.code != NOTHING_LEFT:
                raise
    return gens


def job_of(letter: Item) -> JobRef:
    """Return the job of a dead letter."""
    return JobRef(letter["tenant"], letter["job"])


async def read_wave_result(
    rt: Runtime, letters: Sequence[Item], gens: dict[JobRef, int]
) -> WaveResult:
    """Count the statuses of a wave's chunks, except those that others redrove."""
    statuses: Counter[str] = Counter()
    died: Counter[str] = Counter()
    for letter in letters:
        if job_of(letter) not in gens:
            continue
        ref, gen = job_of(letter).chunk(letter["chunk"]), gens[job_of(letter)]
        item = await rt.table.get(ref.pk, ref.sk)
        if item is None or item["gen"] != gen:
            continue
        statuses[item["status"]] += 1
        if item["status"] == ChunkStatus.DEAD:
            sk = keys.dead_letter_sk(ref.chunk, gen)
            again = await rt.dead_letters.get(ref.of.pk, sk) or {}
            died[str(again.get("fingerprint"))] += 1
    return WaveResult(
        redriven=statuses.total(),
        succeeded=statuses[ChunkStatus.SUCCEEDED],
        cancelled=statuses[ChunkStatus.CANCELLED],
        died=died,
    )
