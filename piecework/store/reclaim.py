"""Two writes on chunks without a live owner: release a lease, record a redispatch.

Workers release the expired leases that they meet, the reconciler those that it sees
unchanged for a whole lease. Both writes compare the state that was read. The release
compares `renewals` too: an owner that renewed its lease meanwhile is alive and keeps
its chunk. The release also removes the token, so that the former owner does not mistake
this write for its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from piecework.domain.model import Chunk, ChunkStatus, iso
from piecework.settings import Settings
from piecework.store.table import Table, Written

AS_READ = "#status = :seen AND gen = :gen AND fence = :fence"
NOT_RENEWED_SINCE = "renewals = :renewals"


@dataclass(slots=True)
class Reclaimer:
    """The writes on chunks whose owner is gone."""

    table: Table
    settings: Settings
    clock: Callable[[], float]

    async def release_expired(self, chunk: Chunk) -> bool:
        """Move RUNNING with an expired lease -> WAITING; refund the attempt.

        The worker may have died by the fault of another chunk, so this one is not
        charged. From now on it is suspect, and runs alone. After `max_takeovers` the
        attempt is no longer refunded; a recovery claim has spent none.

        The next redispatch comes after a third of a lease, because the chunk has waited
        for a whole lease already and SQS may have lost track of its message.
        """
        most = self.settings.max_takeovers
        refund = int(not chunk.recoveries and chunk.takeovers < most)
        return await self._write(
            chunk,
            f"{AS_READ} AND {NOT_RENEWED_SINCE}",
            "SET #status = :waiting, redispatch_at = :due, error_code = :code,"
            " attempts = attempts - :refund ADD takeovers :one"
            " REMOVE claimed_by, claim_expires_at, claim_token",
            {
                "renewals": chunk.renewal_mark[1],
                "waiting": ChunkStatus.WAITING,
                "due": iso(self.clock() + self.settings.lease_s / 3),
                "code": "runtime.worker.lost",
                "refund": refund,
                "one": 1,
            },
        )

    async def mark_redispatched(self, chunk: Chunk) -> bool:
        """Record that the message of a PENDING or WAITING chunk is sent again.

        Each redispatch doubles the delay until the next. Only one of several
        reconcilers that read the same state may record it.
        """
        redispatches = chunk.redispatches
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
