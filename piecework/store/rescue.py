"""The reconciler's two writes: give a dead lease back, and note a resend.

Both are conditional on the very state that was looked at, `renewals` included: a
holder that moved in between is alive, and keeps its chunk. A lease that is given back
takes its token along, so that its holder cannot take our write for its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from piecework.model import Chunk, ChunkStatus, iso
from piecework.settings import Settings
from piecework.store.table import Table, Written

AS_READ = "#status = :seen AND gen = :gen AND fence = :fence"
NOT_RENEWED_SINCE = "renewals = :renewals"


@dataclass(slots=True)
class Reclaimer:
    """The reconciler's writes."""

    table: Table
    settings: Settings
    clock: Callable[[], float]

    async def release_expired(self, chunk: Chunk) -> bool:
        """Move RUNNING with a dead lease -> WAITING; the attempt stays spent.

        It has waited for a lease already, so its message is soon made up for if SQS
        hands it to somebody who never hears of it; a resend after that can wait.
        """
        return await self._write(
            chunk,
            f"{AS_READ} AND {NOT_RENEWED_SINCE}",
            "SET #status = :waiting, redispatch_at = :due, error_code = :code"
            " REMOVE claimed_by, claim_expires_at, claim_token",
            {
                "renewals": chunk.renewal_mark[1],
                "waiting": ChunkStatus.WAITING,
                "due": iso(self.clock() + self.settings.lease_s / 3),
                "code": "runtime.worker.lost",
            },
        )

    async def mark_redispatched(self, chunk: Chunk) -> bool:
        """Note a resend of a PENDING or WAITING chunk; the next comes later.

        Many reconcilers may note the same one at once: it counts as one.
        """
        redispatches = int(chunk.item.get("redispatches", 0))
        wait = self.settings.redispatch_s * 2.0 ** min(redispatches, 8)
        return await self._write(
            chunk,
            AS_READ,
            "SET redispatch_at = :due, redispatches = :sent",
            {"due": iso(self.clock() + wait), "sent": redispatches + 1},
        )

    async def _write(
        self, chunk: Chunk, condition: str, update: str, values: dict[str, Any]
    ) -> bool:
        action = self.table.action(
            "Update",
            chunk.ref.pk,
            chunk.ref.sk,
            condition=condition,
            update=update,
            values={
                "seen": chunk.status,
                "gen": chunk.gen,
                "fence": chunk.fence,
                **values,
            },
        )
        return isinstance(await self.table.update(action, returning="NONE"), Written)
