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

from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso, moment
from piecework.domain.states import ChunkStatus
from piecework.settings import Settings
from piecework.store.table import Table, Written

AS_READ = "#status = :seen AND gen = :gen AND fence = :fence"
NOT_RENEWED_SINCE = "renewals = :renewals"
#: The code of a claim whose worker died, froze or was cut off.
LOST_CODE = "runtime.worker.lost"
#: Doublings of the wait between two redispatches: 64 hours at 15 minutes.
MAX_DOUBLINGS = 8


@dataclass(slots=True)
class Takeovers:
    """The writes on chunks whose owner is gone."""

    table: Table
    settings: Settings
    clock: Callable[[], float]

    async def release_expired(self, chunk: Chunk) -> bool:
        """Move RUNNING with an expired lease -> WAITING; refund the attempt.

        The worker may have died by the fault of another chunk, so this one is not
        charged. From now on it is suspect, and runs alone. After `max_takeovers` the
        attempt is no longer refunded; a recovery claim has spent none. The chunk keeps
        the claim's fence and stage. What that claim paid for is only in its journal
        pages.

        The next redispatch comes after a third of a lease. The chunk has waited for a
        whole lease already, and SQS may have lost track of its message.
        """
        most = self.settings.max_takeovers
        refund = int(not chunk.recoveries and chunk.takeovers < most)
        now = self.clock()
        return await self._write(
            chunk,
            f"{AS_READ} AND {NOT_RENEWED_SINCE}",
            "SET #status = :waiting, lease_released_at = :now, redispatch_at = :due,"
            " error_code = :code, attempts = attempts - :refund, history = :history,"
            " lost_at = if_not_exists(stage, :no_stage)"
            " ADD takeovers :one, lost_fences :lost"
            " REMOVE claimed_by, claim_expires_at, claim_usage, claim_token",
            {
                "renewals": chunk.renewal_mark[1],
                "waiting": ChunkStatus.WAITING,
                "now": iso(now),
                "due": iso(now + self.settings.lease_s / 3),
                "code": LOST_CODE,
                "history": chunk.history_with(
                    chunk.claimed_by, iso(now), "lost", code=LOST_CODE
                ),
                "refund": refund,
                "one": 1,
                "lost": {chunk.fence},
                "no_stage": "",
            },
        )

    async def mark_redispatched(self, chunk: Chunk) -> bool:
        """Record that the message of a PENDING or WAITING chunk is sent again.

        Only one of several reconcilers that read the same state may record it.
        """
        now = self.clock()
        wait = redispatch_wait(chunk, now, self.settings)
        return await self._write(
            chunk,
            AS_READ,
            "SET redispatch_at = :due, redispatches = :sent REMOVE due_at",
            {"due": iso(now + wait), "sent": chunk.redispatches + 1},
        )

    async def _write(
        self, chunk: Chunk, condition: str, update: str, values: dict[str, Any]
    ) -> bool:
        write = self.table.item_write(
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
        return isinstance(await self.table.update(write, returning="NONE"), Written)


def redispatch_wait(chunk: Chunk, now: float, settings: Settings) -> float:
    """Return the seconds until the redispatch after this one.

    The wait of a chunk that was given back is as long as it has waited already. So it
    grows from a third of a lease to `redispatch_s`: a lost message delays a takeover.
    The message of any other chunk is probably still in a long queue. Its wait starts at
    `redispatch_s` and doubles each time.
    """
    if not chunk.lease_released_at:
        return settings.redispatch_s * 2.0 ** min(chunk.redispatches, MAX_DOUBLINGS)
    waited = max(now - moment(chunk.lease_released_at), settings.lease_s / 3)
    return min(waited, settings.redispatch_s)
