"""Complete statuses, error codes and ids in bash, zsh and fish.

`piecework --install-completion` installs it; typer writes the scripts of the shells.
A completion reads the deployment that the words before it name. It takes at most a
second, and never writes an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

#: Seconds after which a completion gives up.
LIMIT_S = 1.0
#: The newest jobs, among which one is completed.
MAX_FOUND = 50


def beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    """Return the words that begin with the incomplete one."""
    return [word for word in words if word.startswith(incomplete)]


def statuses(incomplete: str, words: Iterable[str]) -> list[str]:
    """Return the statuses that begin so, in lower case if the operator types so."""
    lower = incomplete.islower()
    return beginning(incomplete, (word.lower() if lower else word for word in words))


def complete_job_status(incomplete: str) -> list[str]:
    """Complete the status of a job."""
    from piecework.domain.states import JobStatus

    return statuses(incomplete, map(str, JobStatus))


def complete_chunk_status(incomplete: str) -> list[str]:
    """Complete the status of a chunk."""
    from piecework.domain.states import ChunkStatus

    return statuses(incomplete, map(str, ChunkStatus))


def complete_code(incomplete: str) -> list[str]:
    """Complete an error code of the registry."""
    from piecework.errors.codes import REGISTRY

    return beginning(incomplete, REGISTRY)


def complete_job(incomplete: str) -> list[str]:
    """Complete the id of a job, the newest first."""
    try:
        return asyncio.run(asyncio.wait_for(newest_jobs(incomplete), LIMIT_S))
    except Exception:  # noqa: BLE001 -- a shell would show it in the middle of a line
        return []


async def newest_jobs(incomplete: str) -> list[str]:
    """Return the ids of the newest jobs that begin so."""
    from piecework import reading
    from piecework.settings import load_settings

    found: list[str] = []
    async with reading.connect_for_reading(load_settings()) as rt:
        async for ref in rt.jobs.listed(rt.settings.tenant):
            found += beginning(incomplete, [ref.job])
            if len(found) == MAX_FOUND:
                break
    return found
