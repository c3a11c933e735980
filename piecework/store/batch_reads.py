"""Read the batch lane from the tables: collectors, gathered requests, batches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeAlias

from piecework.domain import keys
from piecework.domain.batch import AskedRow, CollectorRow, PlannedRow
from piecework.store.table import Table

#: A tenant, and the key of a model: what one collector is for.
Place: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class BatchReads:
    """The batches of a deployment, as a command reads them."""

    table: Table

    async def collectors(
        self, tenant: str = ""
    ) -> AsyncIterator[tuple[Place, CollectorRow]]:
        """Yield each collector, of one tenant or of all, with its tenant and model."""
        prefix = keys.COLLECTOR_PREFIX + (f"{tenant}#" if tenant else "")
        async for item in self.table.query(keys.ACTIVE_PK, prefix):
            if (found := keys.collected_by(item["sk"])) is not None:
                yield found, CollectorRow(item)

    async def each_asked(self, place: Place) -> AsyncIterator[AskedRow]:
        """Yield the requests of a model that no batch has yet, the first ones first."""
        pk = keys.batches_pk(*place)
        async for item in self.table.query(pk, keys.ASKED_PREFIX):
            yield AskedRow(item)

    async def first_asked(self, place: Place, most: int) -> list[AskedRow]:
        """Return the first requests of a model that no batch has yet."""
        pk, prefix = keys.batches_pk(*place), keys.ASKED_PREFIX
        found = await self.table.first(pk, most, prefix=prefix)
        return [AskedRow(item) for item in found]

    async def open(self, place: Place) -> list[PlannedRow]:
        """Return the batches of a model that have not ended."""
        found = self.table.query(keys.batches_pk(*place), keys.BATCH_PREFIX)
        return [PlannedRow(item) async for item in found]

    async def ended(self, place: Place, most: int) -> list[PlannedRow]:
        """Return the last batches of a model that have ended, the newest first."""
        pk, prefix = keys.batches_pk(*place), keys.ENDED_PREFIX
        found = await self.table.first(pk, most, prefix=prefix, backwards=True)
        return [PlannedRow(item) for item in found]
