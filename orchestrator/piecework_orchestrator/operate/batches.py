"""The batches of a tenant, for an operator: list, show, cancel, let go direct."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from piecework.domain.batch import CANCEL, DIRECT
from piecework.errors import NotFoundError, UsageError
from piecework.explain.batches import BatchFacts, read_batches
from piecework.reading import Reading
from piecework.runtime import Runtime
from piecework.store.batches import Batches
from piecework.store.fleet_events import fleet_event
from piecework_orchestrator.reading.times import count

#: Ended batches of each model that are listed, and among which one is looked for.
MOST_ENDED = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which batches are listed.

    Attributes:
        job, model: Only those of them; empty: of any.
        ended: Whether those that have ended are listed, too: `most` of each model.
    """

    job: str = ""
    model: str = ""
    ended: bool = False
    most: int = MOST_ENDED

    def of(self, found: Iterable[BatchFacts]) -> list[BatchFacts]:
        """Return those that are wanted."""
        return [each for each in found if self.has(each)]

    def has(self, batch: BatchFacts) -> bool:
        """Return whether a batch is wanted."""
        named = {each["job"] for each in batch.jobs}
        model = batch.document["model"]
        return (not self.job or self.job in named) and self.model in {"", model}


async def list_batches(rt: Reading, wanted: Wanted) -> list[dict[str, Any]]:
    """Return the batches of the tenant, those that end first ahead.

    What is gathered of a model comes as a batch without an id.
    """
    ended = wanted.most if wanted.ended else 0
    tenant, now = rt.settings.tenant, rt.clock()
    found = await read_batches(rt.table, tenant, now, ended=ended)
    return [each.document for each in wanted.of(found)]


async def show_batch(rt: Reading, name: str) -> dict[str, Any]:
    """Return a batch with its jobs and chunks, its polls, and why it waits.

    Raises:
        NotFoundError: `llm.batch.not_found`.
    """
    found = await find_batch(rt, name)
    row = found.row
    jobs = [
        {**each, "chunk_numbers": ranges(found.chunks_of(each["job"]))}
        for each in found.document["jobs"]
    ]
    return {
        **found.document,
        "jobs": jobs,
        "polls": row.polls if row else 0,
        "unreadable": row.unreadable if row else 0,
        "wanted": (row.wanted if row else "") or "",
        "wanted_by": row.wanted_by if row else "",
        "wanted_why": row.wanted_why if row else "",
    }


async def find_batch(rt: Reading, name: str) -> BatchFacts:
    """Return the batch of an id of its provider, or of a digest.

    Raises:
        NotFoundError: `llm.batch.not_found`.
    """
    tenant, now = rt.settings.tenant, rt.clock()
    found = await read_batches(rt.table, tenant, now, ended=MOST_ENDED)
    for each in found:
        if each.row is not None and name in {each.row.id, each.row.digest} - {""}:
            return each
    message = f"The tenant {tenant} has no batch {name[:128]}."
    raise NotFoundError(message, code="llm.batch.not_found")


async def require_open(rt: Reading, name: str) -> BatchFacts:
    """Return a batch that has not ended.

    Raises:
        NotFoundError: `llm.batch.not_found`.
        UsageError: `llm.batch.ended`.
    """
    found = await find_batch(rt, name)
    if not found.is_open:
        raise ended(found)
    return found


async def want(
    rt: Runtime, batch: BatchFacts, wanted: str, actor: str, reason: str
) -> dict[str, Any]:
    """Let the collector cancel a batch; with `direct`, what is left goes direct.

    Raises:
        UsageError: `llm.batch.ended`: it has ended meanwhile.
    """
    batches, row = batches_of(rt), batch.row
    if row is None or not await batches.want(batch.place, row, wanted, actor, reason):
        raise ended(batch)
    told = {"batch": batch.name, "model": row.model, "actor": actor, "reason": reason}
    event = {CANCEL: "batch cancelled", DIRECT: "batch sent direct"}[wanted]
    await record(rt, event, told)
    return wanted_document(batch, wanted)


def wanted_document(batch: BatchFacts, wanted: str) -> dict[str, Any]:
    """Return a batch with what is wanted of it, and whether no worker would do it."""
    stranded = batch.is_stranded
    return {**batch.document, "wanted": wanted, "stranded": stranded}


async def to_send(rt: Reading, batch: str, model: str) -> list[BatchFacts]:
    """Return a batch that shall go direct; without one, what is gathered.

    Raises:
        NotFoundError: `llm.batch.not_found`.
        UsageError: `llm.batch.ended`; `cli.usage.invalid`: a batch has one model.
    """
    if batch and model:
        step = f"piecework batches direct {batch}"
        raise UsageError("A batch has one model: name only one.", next_step=step)
    return [await require_open(rt, batch)] if batch else await gathered(rt, model)


async def gathered(rt: Reading, model: str = "") -> list[BatchFacts]:
    """Return what is gathered of each model, or of one."""
    found = await read_batches(rt.table, rt.settings.tenant, rt.clock())
    wanted = Wanted(model=model)
    return [each for each in found if each.row is None and wanted.has(each)]


async def send_direct(
    rt: Runtime, found: Sequence[BatchFacts], actor: str, reason: str
) -> list[dict[str, Any]]:
    """Let what is left of batches go direct, and gathered requests.

    Raises:
        UsageError: `llm.batch.ended`: one has ended meanwhile.
    """
    done = list[dict[str, Any]]()
    for each in found:
        if each.row is not None:
            done.append(await want(rt, each, DIRECT, actor, reason))
            continue
        await batches_of(rt).send_back(each.place)
        told = {"model": each.collector.model, "rows": each.rows}
        await record(
            rt, "requests sent direct", {**told, "actor": actor, "reason": reason}
        )
        done.append(wanted_document(each, DIRECT))
    return done


def batches_of(rt: Runtime) -> Batches:
    """Return the batches of the deployment."""
    return Batches(rt.table, rt.objects, rt.clock)


async def record(rt: Runtime, event: str, told: dict[str, Any]) -> None:
    """Write an act of an operator to the events of the tenant."""
    tenant, now = rt.settings.tenant, rt.clock()
    await rt.table.transact([fleet_event(rt.table, tenant, event, now, told)])


def ended(batch: BatchFacts) -> UsageError:
    """Return the error of an act on a batch that has ended."""
    message = f"The batch {batch.name} has ended."
    step = f"piecework batches show {batch.name}"
    return UsageError(message, code="llm.batch.ended", next_step=step)


def rest_text(batch: BatchFacts) -> str:
    """Return what an act does to the rows that are not answered, for a preview."""
    left = count(batch.rows - (batch.row.answered if batch.row else 0), "row")
    return f"up to {left} of {count(len(batch.jobs), 'job')}"


def ranges(chunks: Iterable[int]) -> str:
    """Return numbers as text: 0-39, 41."""
    return ", ".join(
        f"{first}-{last}" if last > first else f"{first}"
        for first, last in runs(sorted(chunks))
    )


def runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of consecutive numbers."""
    first = last = None
    for each in numbers:
        if first is None or last is None:
            first = last = each
        elif each == last + 1:
            last = each
        else:
            yield first, last
            first = last = each
    if first is not None and last is not None:
        yield first, last
