"""The reports of the fleet's workers: one row for each worker, which expires.

A report is a hint for operators. No claim, lease or takeover depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.rows import WorkerRow
from piecework.domain.schema import SCHEMA, is_newer
from piecework.store.dead_letters import expires_at
from piecework.store.table import Table

#: Days after which DynamoDB may delete the report of a worker.
RETENTION_DAYS = 1.0


@dataclass(frozen=True, slots=True)
class WorkerReports:
    """The reports of one worker."""

    table: Table
    worker: str
    clock: Callable[[], float]

    async def report(
        self,
        code_versions: Mapping[str, str],
        queues: Iterable[str],
        dependencies: Iterable[str],
        *,
        max_chunks: int,
        in_progress: int,
        lease_s: float,
        due_in_s: float,
    ) -> None:
        """Write that the worker lives, and by when it reports again.

        `code_versions`: that of each pipeline; `dependencies`: those that it has
        called.
        """
        now = self.clock()
        facts = {
            "v": SCHEMA,
            "worker": self.worker,
            "pipelines": sorted(code_versions),
            "code_versions": dict(code_versions),
            "queues": sorted(queue or keys.DEFAULT_QUEUE for queue in queues),
            "dependencies": sorted(dependencies),
            "max_chunks": max_chunks,
            "in_progress": in_progress,
            "lease_ms": round(lease_s * 1000),
            "reported_at": iso(now),
            "due_at": iso(now + due_in_s),
            "expires_at": expires_at(now, RETENTION_DAYS),
        }
        assigned = ", ".join(f"#{name} = :{name}" for name in facts)
        write = self.table.item_write(
            "Update",
            keys.WORKERS_PK,
            self.worker,
            update=f"SET {assigned} REMOVE stopped_at, lost_at, taken_over",
            values=facts,
        )
        await self.table.update(write, returning="NONE")

    async def stop(self) -> None:
        """Write that the worker takes no more chunks."""
        write = self.table.item_write(
            "Update",
            keys.WORKERS_PK,
            self.worker,
            condition="attribute_exists(pk)",
            update="SET stopped_at = :now",
            values={"now": iso(self.clock())},
        )
        await self.table.update(write, returning="NONE")


async def note_takeover(table: Table, worker: str, now: float) -> None:
    """Write on the report of a worker that a chunk of it was taken over.

    Its next report removes it: then the worker lives.
    """
    write = table.item_write(
        "Update",
        keys.WORKERS_PK,
        worker,
        condition="attribute_exists(pk)",
        update="SET lost_at = :now ADD taken_over :one",
        values={"now": iso(now), "one": 1},
    )
    await table.update(write, returning="NONE")


async def read_reports(table: Table) -> list[WorkerRow]:
    """Return the last report of each worker that this version can read."""
    rows = table.query(keys.WORKERS_PK, any_version=True)
    return [WorkerRow(item) async for item in rows if not is_newer(item)]
