"""Leave to newer workers what this one does not know: delayed, counted, never lost.

Its message is hidden for a while, a little longer each time: it is anybody's luck who
meets it next, so that doubling would keep it from the few newer workers of a deployment
that has just begun. Those that came in one receive come back apart, each to its own
luck. After ten times SQS sets it aside, and a reconciler sends it again.
"""

from __future__ import annotations

from piecework import telemetry
from piecework.settings import Settings
from workers.station import WorkerServices

#: Seconds that a message is left for, at the most.
MAX_DELAY_S = 900.0


async def defer_to_newer_worker(
    about: str, received: int, receipt: str | None, services: WorkerServices
) -> None:
    """Hide the message of a turn that is for newer workers."""
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
    """Return the seconds until what was left so often before is met again."""
    return min(MAX_DELAY_S, max(times, 1) * settings.lease_s / 2)
