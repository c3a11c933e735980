"""Save the artifacts and the certificate of an ended job as files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from orchestrator.cli.whole_file import make_folder, whole_file
from orchestrator.inspector import certificate
from piecework import keys
from piecework.errors import UsageError
from piecework.harvest import artifact_key
from piecework.model import Job, JobStatus
from piecework.runtime import Runtime

CERTIFICATE = "certificate.json"
#: Artifacts stay when a job is resumed, and a join may fail with some of them written.
NOT_OF_THIS_END = (
    "the join did not end: what is saved here was written before it failed, or by an "
    "earlier one, and may not fit the certificate"
)


async def save_artifacts(
    rt: Runtime, job: Job, folder: Path, say: Callable[[str], None]
) -> list[Path]:
    """Save what the join wrote, and say so; return the files.

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
    make_folder(folder)
    saved = []
    for name in filter(keys.is_file_name, names):
        with whole_file(folder / name) as file:
            async for block in rt.objects.blocks(artifact_key(job.ref, name)):
                file.write(block)
        saved.append(folder / name)
    joined = not proof.get("join_error") and job.status is not JobStatus.CANCELLED
    own = CERTIFICATE if CERTIFICATE not in names else f"{job.ref.job}.{CERTIFICATE}"
    with whole_file(folder / own) as file:
        file.write(json.dumps(proof, ensure_ascii=False, indent=1).encode() + b"\n")
    for path in [*saved, folder / own]:
        say(f"saved {path}")
    if saved and not joined:
        say(NOT_OF_THIS_END)
    return [*saved, folder / own]
