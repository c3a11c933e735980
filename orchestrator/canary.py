"""Redrive a few first, and more only once those have come through.

A wave reopens its jobs, each in a new generation, and the next one waits until these
have ended again: an ended job alone can be reopened. So its join runs after each wave.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.redrive import NOTHING_LEFT, Redrive, redrive
from orchestrator.waiting import Watcher, watch
from orchestrator.waves import Came, Verdict, judge, waves
from piecework import keys
from piecework.errors import UsageError, WaitTimeoutError
from piecework.model import ChunkStatus, JobRef
from piecework.runtime import Runtime
from piecework.store.table import Item


@dataclass(frozen=True, slots=True)
class Canary:
    """What a person asked for.

    Attributes:
        letters: The open ones, each with its fingerprint, of any jobs.
        how: Makes a redrive of some letters of a job.
        first: How many the first wave has.
        timeout_s: Seconds to wait in all.
    """

    letters: Sequence[Item]
    how: Callable[[JobRef, Sequence[Item]], Redrive]
    first: int
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What it came to.

    Attributes:
        left_alone: The letters that were not redriven, for it stopped before.
    """

    verdict: Verdict
    came: list[Came]
    left_alone: int


async def canary(
    rt: Runtime,
    asked: Canary,
    told: Callable[[Came], None],
    remark: Callable[[str], None],
) -> Outcome:
    """Redrive wave by wave; `told` hears what each came to.

    Raises:
        UsageError: `job.state.not_finished`; `redrive.payload.invalid`.
        WaitTimeoutError: `cli.wait.timeout`; the wave under way goes on.
    """
    loop = asyncio.get_running_loop()
    ends = None if asked.timeout_s is None else loop.time() + asked.timeout_s
    redriven_for = {letter["fingerprint"] for letter in asked.letters}
    came: list[Came] = []
    left = len(asked.letters)
    verdict = Verdict.GO_ON
    for letters in waves(asked.letters, asked.first):
        gens = await redrive_all(rt, asked, letters)
        left -= len(letters)
        for ref in gens:
            rest = None if ends is None else max(ends - loop.time(), 0.0)
            await until_ended(rt, ref, remark, rest, left)
        came.append(await look(rt, letters, gens))
        told(came[-1])
        verdict = judge(came[-1], redriven_for)
        if verdict is not Verdict.GO_ON:
            break
    return Outcome(verdict, came, left)


async def until_ended(
    rt: Runtime,
    ref: JobRef,
    remark: Callable[[str], None],
    limit_s: float | None,
    left: int,
) -> None:
    """Wait for the end of a job.

    Raises:
        WaitTimeoutError: `cli.wait.timeout`, with how many letters are left.
    """
    try:
        await watch(rt, ref.job, Watcher(lambda _: None, remark=remark), limit_s)
    except WaitTimeoutError as error:
        message = f"{error.message} Dead letters left alone: {left}."
        raise WaitTimeoutError(message, next_step=error.next_step) from error


async def redrive_all(
    rt: Runtime, asked: Canary, letters: Sequence[Item]
) -> dict[JobRef, int]:
    """Redrive a wave, job by job; return the generation in which each job is now.

    A job is left out of whose letters others have closed all since they were listed.
    """
    by_job: dict[JobRef, list[Item]] = defaultdict(list)
    for letter in letters:
        by_job[of(letter)].append(letter)
    gens = {}
    for ref, some in by_job.items():
        try:
            _, gens[ref] = await redrive(rt, asked.how(ref, some))
        except UsageError as error:
            if error.code != NOTHING_LEFT:
                raise
    return gens


def of(letter: Item) -> JobRef:
    """Return the job of a letter."""
    return JobRef(letter["tenant"], letter["job"])


async def look(rt: Runtime, letters: Sequence[Item], gens: dict[JobRef, int]) -> Came:
    """Look at what became of a wave's chunks, but for those that others redrove."""
    statuses: Counter[str] = Counter()
    died: Counter[str] = Counter()
    for letter in letters:
        if of(letter) not in gens:
            continue
        ref, gen = of(letter).chunk(letter["chunk"]), gens[of(letter)]
        item = await rt.table.get(ref.pk, ref.sk)
        if item is None or item["gen"] != gen:
            continue
        statuses[item["status"]] += 1
        if item["status"] == ChunkStatus.DEAD:
            sk = keys.dead_letter_sk(ref.chunk, gen)
            again = await rt.dead_letters.get(ref.of.pk, sk) or {}
            died[str(again.get("fingerprint"))] += 1
    return Came(
        redriven=statuses.total(),
        succeeded=statuses[ChunkStatus.SUCCEEDED],
        cancelled=statuses[ChunkStatus.CANCELLED],
        died=died,
    )
