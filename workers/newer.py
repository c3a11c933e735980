"""Defer what only a newer worker understands: delayed and logged, never lost.

SQS hides the message, each time a little longer. Which worker receives it next is
random, so doubling the delay would keep it from the few newer workers at the start of a
deployment. Messages of one receive get different delays, so that different workers
receive them. After ten receives SQS moves the message to its dead-letter queue, and a
reconciler dispatches the chunk again.
"""

from __future__ import annotations

from piecework import telemetry
from piecework.settings import Settings
from workers.station import WorkerServices

#: Longest delay in seconds.
MAX_DELAY_S = 900.0


async def defer_to_newer_worker(
    about: str, received: int, receipt: str | None, services: WorkerServices
) -> None:
    """Hide the message of a work item that only a newer worker understands."""
    most = retry_delay(received, services.rt.settings)
    seconds = round(most * services.rt.rng.uniform(0.5, 1), 3)
    telemetry.emit(
        services.log,
        "message.deferred_newer_schema",
        about=about,
        received=received,
        delay_s=seconds,
    )
    if receipt is not None:
        await services.rt.work.hide([receipt], seconds)


def retry_delay(times: int, settings: Settings) -> float:
    """Return the delay in seconds after `times` deferrals."""
    return min(MAX_DELAY_S, max(times, 1) * settings.lease_s / 2)
