"""Count how often in a row the worker lacked what a process needs; then end it.

Memory, disk space, file handles, threads and processes come back if a chunk ends, or
never. A worker that goes without them would only defer chunk after chunk, so it ends as
at its memory limit, and the platform starts a fresh one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from math import inf

from piecework import telemetry
from piecework.errors import WORKER_OUTAGES, StoreError, WorkerExhaustedError

#: Times in a row after which the worker ends.
MOST = 5
#: Seconds within which several failures count as one: they met the same peak.
PEAK_S = 1.0
#: Seconds without a failure after which the count begins anew. A chunk that was
#: deferred four times returns sooner.
QUIET_S = 30.0


@dataclass(slots=True)
class Exhaustion:
    """Notes what the worker's requests and stages lacked.

    Attributes:
        error: The last failure that was counted.
    """

    log: telemetry.Log
    times: int = 0
    noted_at: float = -inf
    error: StoreError | None = None
    _enough: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, error: StoreError) -> None:
        """Note a failure, unless it has another cause."""
        if error.code not in WORKER_OUTAGES:
            return
        now = asyncio.get_running_loop().time()
        since = now - self.noted_at
        if since < PEAK_S:
            return
        self.times = self.times + 1 if since < QUIET_S else 1
        self.noted_at, self.error = now, error
        telemetry.emit(
            self.log,
            "worker.exhausted",
            error_code=error.code,
            times=self.times,
            reason=error.message,
        )
        if self.times >= MOST:
            self._enough.set()

    async def end(self) -> None:
        """Wait until the worker must end.

        Raises:
            WorkerExhaustedError: It lacked something several times in a row.
        """
        await self._enough.wait()
        if self.error is not None:
            message = f"{self.times} times in a row: {self.error.message}"
            raise WorkerExhaustedError(message, code=self.error.code)
