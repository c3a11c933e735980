"""Keep the chunks of a tenant that run at once, in the whole fleet, below its cap.

A cap is a limit like that of a dependency: the workers share its slots by the same row.
One chunk of a tenant at a time waits in each worker for a slot. The others go back to
the queue, so that no tenant takes the worker's slots by waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from piecework.calls.fleet_limits import FleetLimits
from piecework.calls.limiter import Limiter
from piecework.domain import keys
from piecework.errors import TransientError

#: Seconds that a chunk waits in a worker for a slot of its tenant.
WAIT_S: Final = 20.0
#: Seconds, at most, that a message of a tenant without a free slot is hidden.
LONGEST_S: Final = 20.0
#: More than a worker can run: the tenant has no cap.
UNLIMITED: Final = 1_000_000


@dataclass(slots=True)
class TenantCaps:
    """The caps of tenants, as one worker keeps to them.

    Attributes:
        on_change: Called when a chunk of a tenant with a cap may start.
    """

    limits: FleetLimits
    on_change: Callable[[], None]

    def room(self, tenant: str) -> int:
        """Return how many chunks of a tenant this worker may start now.

        Without a free slot, one chunk may come and wait for the next one.
        """
        limiter = self._limiter(tenant)
        if limiter is None:
            return UNLIMITED
        return limiter.free_slots() or int(not limiter.waiting)

    def want(self, tenant: str, chunks: int) -> None:
        """Ask for slots for so many more chunks with the next reservation."""
        if limiter := self._limiter(tenant):
            flight = limiter.flight
            flight.peak = max(flight.peak, flight.in_use() + chunks)

    async def admit(
        self, tenant: str, stop: asyncio.Event
    ) -> Callable[[], None] | None:
        """Wait for a slot of a tenant; return what frees it.

        None: the fleet runs as many chunks of the tenant as it may, or the worker
        stops.
        """
        limiter = self._limiter(tenant)
        if limiter is None:
            return _nothing
        if not self.room(tenant):
            limiter.flight.peak += 1
            return None
        until = asyncio.get_running_loop().time() + WAIT_S
        starting = asyncio.ensure_future(limiter.start(0, until))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait(
                [starting, stopping], return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            if starting.done() and not starting.exception():
                limiter.release()
            raise
        finally:
            stopping.cancel()
            starting.cancel()
            self.on_change()
        if not starting.done() or isinstance(starting.exception(), TransientError):
            return None
        starting.result()

        def free() -> None:
            limiter.release()
            self.on_change()

        return free

    def _limiter(self, tenant: str) -> Limiter | None:
        """Return the limiter of a tenant; None: it has no cap."""
        found = self.limits.by_name.get(keys.tenant_limit(tenant))
        return found if found and found.limits.concurrent is not None else None


def delay_of(received: int) -> float:
    """Return the longest delay in seconds of a message without a slot."""
    return min(LONGEST_S, 2.0 ** max(1, received))


def _nothing() -> None:
    """Free nothing: the tenant has no cap."""
