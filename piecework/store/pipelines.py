"""The pauses of pipelines: one row for each pipeline that was ever paused.

While a pipeline is paused, a mark of it is among the active jobs. So a reconciler finds
it with its jobs. Each write names the one that it follows. So a late copy of a pause
changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.pause import Pause, PauseCode
from piecework.domain.records import read_int
from piecework.domain.schema import SCHEMA, require_known
from piecework.store.fleet_events import fleet_event
from piecework.store.limits import FIRST_OR_SEEN, PAUSE, read_pause
from piecework.store.table import Item, ItemWrite, Table, Written

#: The pause that the writer has read has not ended.
STILL_PAUSED: Final = "seq = :seen AND attribute_exists(pause_code)"


@dataclass(frozen=True, slots=True)
class PipelineState:
    """Whether a pipeline is paused.

    Attributes:
        seq: Rises with each pause and each resume; 0: it was never paused.
    """

    tenant: str
    pipeline: str
    seq: int = 0
    pause: Pause | None = None


@dataclass(frozen=True, slots=True)
class PipelinePauses:
    """The pauses of the pipelines of a deployment."""

    table: Table
    clock: Callable[[], float]

    async def read(self, tenant: str, pipeline: str) -> PipelineState:
        """Return the state of a pipeline."""
        row = await self.table.get(keys.pipelines_pk(tenant), pipeline)
        return _state(tenant, pipeline, row or {})

    async def of_tenant(self, tenant: str) -> AsyncIterator[PipelineState]:
        """Yield the pipelines of a tenant that were ever paused."""
        async for row in self.table.query(keys.pipelines_pk(tenant)):
            yield _state(tenant, row["sk"], row)

    async def pause(self, seen: PipelineState, actor: str, reason: str) -> bool:
        """Pause a pipeline; False: its state has changed since.

        A pause that is repeated replaces the reason.
        """
        told = (PauseCode.PIPELINE, reason, actor, iso(self.clock()))
        pause = dict(zip(PAUSE, told, strict=True))
        return await self._write(seen, actor, reason, pause)

    async def resume(self, seen: PipelineState, actor: str, reason: str) -> bool:
        """End the pause of a pipeline; False: its state has changed since."""
        return await self._write(seen, actor, reason, {})

    async def _write(
        self, seen: PipelineState, actor: str, reason: str, pause: dict[str, str]
    ) -> bool:
        """Write the pause of a pipeline, its mark and the event; empty: its end."""
        facts: dict[str, Any] = {"v": SCHEMA, "seq": seen.seq + 1, **pause}
        removed = "" if pause else " REMOVE " + ", ".join(PAUSE)
        row = self.table.item_write(
            "Update",
            keys.pipelines_pk(seen.tenant),
            seen.pipeline,
            condition=FIRST_OR_SEEN,
            update="SET " + ", ".join(f"{name} = :{name}" for name in facts) + removed,
            values={**facts, "seen": seen.seq},
        )
        mark = self.table.item_write(
            "Put" if pause else "Delete",
            keys.ACTIVE_PK,
            keys.pipeline_sk(seen.tenant, seen.pipeline),
            item={"tenant": seen.tenant} if pause else None,
        )
        act = {"pipeline": seen.pipeline, "actor": actor, "reason": reason}
        name = "pipeline paused" if pause else "pipeline resumed"
        event = fleet_event(self.table, seen.tenant, name, self.clock(), act)
        return isinstance(await self.table.transact([row, mark, event]), Written)

    def still_paused(self, seen: PipelineState) -> ItemWrite:
        """Return the check that the pause which was read has not ended."""
        return self.table.item_write(
            "ConditionCheck",
            keys.pipelines_pk(seen.tenant),
            seen.pipeline,
            condition=STILL_PAUSED,
            values={"seen": seen.seq},
        )


def _state(tenant: str, pipeline: str, row: Item) -> PipelineState:
    row = require_known(row)
    seq = read_int({"seq": 0} | row, "seq", "The pause of a pipeline")
    pause = read_pause(row, "The pause of a pipeline")
    return PipelineState(tenant, pipeline, seq, pause)
