"""Save the artifacts and the certificate of an ended job as files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from orchestrator.inspector import certificate
from piecework import keys
from piecework.errors import UsageError
from piecework.harvest import artifact_key
from piecework.model import Job
from piecework.runtime import Runtime

CERTIFICATE = "certificate.json"


async def save_artifacts(rt: Runtime, job: Job, folder: Path) -> list[Path]:
    """Save what the join wrote; return the files.

    Names were checked when they were written, and are again: a bucket may hold what
    somebody else put there, and a name is not to lead out of the folder.

    Raises:
        UsageError: `job.state.not_finished`; `cli.usage.invalid`: the folder cannot
            be written to.
    """
    proof = await certificate(rt, job)
    if proof is None:
        message = f"Job {job.ref.job} is {job.status}: it has no artifacts yet."
        step = f"`piecework results {job.ref.job} --follow --save {folder}`"
        raise UsageError(message, code="job.state.not_finished", next_step=step)
    prefix = artifact_key(job.ref, "")
    found = [key async for key in rt.objects.names(prefix)]
    names = [key.removeprefix(prefix) for key in found]
    saved = []
    for name in filter(keys.is_file_name, names):
        content = await rt.objects.get(artifact_key(job.ref, name))
        saved.append(await write(folder / name, content))
    own = CERTIFICATE if CERTIFICATE not in names else f"{job.ref.job}.{CERTIFICATE}"
    content = json.dumps(proof, ensure_ascii=False, indent=1).encode() + b"\n"
    return [*saved, await write(folder / own, content)]


async def write(path: Path, content: bytes) -> Path:
    """Write a file, beside the event loop.

    Raises:
        UsageError: `cli.usage.invalid`.
    """

    def do() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    try:
        await asyncio.to_thread(do)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        message = f"{str(path)!r} cannot be written: {why}."
        raise UsageError(message, next_step="Name another folder.") from error
    return path
