"""Compare two runs of the same rows: this is how a prompt or a model is judged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from piecework.domain import keys
from piecework.domain.budget import NANO
from piecework.domain.job import Job
from piecework.runtime import Runtime
from piecework_orchestrator.reading.job_documents import Document
from piecework_orchestrator.results.results import EndedChunk, read_group, result_json


@dataclass(slots=True)
class Totals:
    """What a comparison has counted so far.

    Attributes:
        same: Chunks with equal results, or with the same end without a result.
        different: All others.
        other_rows: Chunks that had other rows in the two jobs.
        paid: The paid calls of the compared chunks of each job.
        usd: What these cost, as they say; a call without a known price costs 0.
    """

    same: int = 0
    different: int = 0
    other_rows: int = 0
    paid: tuple[int, int] = (0, 0)
    usd: tuple[float, float] = (0.0, 0.0)


async def differences(
    rt: Runtime, one: Job, other: Job, totals: Totals
) -> AsyncIterator[Document]:
    """Yield the chunks whose ends differ, by number; count all in `totals`.

    Chunks of one number are compared. `payload_differs` says if they had other rows.
    A chunk that has not ended, or that only one job has, is `null` on its side. The
    hashes of the results decide, so that only different results are read.

    Raises:
        StateError, PermanentError: A stored result cannot be read.
    """
    for group in range(keys.partition_count(max(one.chunks, other.chunks))):
        left = await ended_of(rt, one, group)
        right = await ended_of(rt, other, group)
        for number in sorted(left.keys() | right.keys()):
            sides = left.get(number), right.get(number)
            cost = [cost_of(each) for each in sides]
            totals.usd = totals.usd[0] + cost[0], totals.usd[1] + cost[1]
            paid = [paid_of(each) for each in sides]
            totals.paid = totals.paid[0] + paid[0], totals.paid[1] + paid[1]
            known = [each.chunk for each in sides if each is not None]
            others = len({chunk.payload_sha256 for chunk in known}) > 1
            totals.other_rows += others
            if mark_of(sides[0]) == mark_of(sides[1]):
                totals.same += 1
                continue
            totals.different += 1
            yield {
                "chunk": number,
                "label": known[0].label,
                "payload_differs": others,
                "one": await side_of(rt, sides[0]),
                "other": await side_of(rt, sides[1]),
            }


async def ended_of(rt: Runtime, job: Job, group: int) -> dict[int, EndedChunk]:
    """Return the chunks of a group of a job that have ended, by number."""
    if group >= keys.partition_count(job.chunks):
        return {}
    return {each.chunk.ref.chunk: each for each in await read_group(rt, job, group)}


def mark_of(ended: EndedChunk | None) -> tuple[str, str]:
    """Return what is equal for equal ends: the status, and the result or the code."""
    if ended is None:
        return "", ""
    detail = ended.chunk.result_sha256 if ended.succeeded else ended.error_code
    return str(ended.chunk.status), detail


def paid_of(ended: EndedChunk | None) -> int:
    """Return the number of a chunk's paid calls."""
    return 0 if ended is None else ended.chunk.settled_usage.total("paid")["calls"]


def cost_of(ended: EndedChunk | None) -> float:
    """Return the dollars of a chunk's paid calls, as far as their prices are known."""
    if ended is None:
        return 0.0
    return ended.chunk.settled_usage.total("paid")["nano_usd"] / NANO


async def side_of(rt: Runtime, ended: EndedChunk | None) -> Document | None:
    """Return one side of a difference."""
    if ended is None:
        return None
    value = json.loads(await result_json(rt, ended)) if ended.succeeded else None
    return {
        "status": str(ended.chunk.status),
        "error_code": "" if ended.succeeded else ended.error_code,
        "value": value,
        "code_version": ended.code_version,
        "usd": cost_of(ended),
    }
