"""Save the artifacts of a job's join, and its certificate."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.states import JobStatus
from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework_orchestrator.reading.job_documents import read_certificate
from piecework_orchestrator.results.files import make_folder, whole_file

CERTIFICATE = "certificate.json"
#: A reopened job keeps its artifacts, and a failed join may have written some.
JOIN_FAILED_REMARK = (
    "the join did not succeed: the saved artifacts may be incomplete or of an earlier "
    "run, and may not match the certificate"
)


async def save_artifacts(
    rt: Runtime, job: Job, folder: Path, say: Callable[[str], None]
) -> list[Path]:
    """Save the join's artifacts and the certificate; return the files.

    The join has checked the names, but another program may have written to the bucket.
    So they are checked again: a name must not lead out of the folder.

    Raises:
        UsageError: `job.state.not_finished`; `cli.usage.invalid`: the folder cannot
            be written to.
    """
    proof = await read_certificate(rt, job)
    if proof is None:
        message = f"Job {job.ref.job} is {job.status}: it has no artifacts yet."
        step = f"`piecework results {job.ref.job} --follow --save {folder}`"
        raise UsageError(message, code="job.state.not_finished", next_step=step)
    prefix = keys.artifact_key(job.ref.tenant, job.ref.job, "")
    found = [key async for key in rt.objects.names(prefix)]
    names = [key.removeprefix(prefix) for key in found]
    make_folder(folder)
    saved = []
    for name in filter(keys.is_file_name, names):
        with whole_file(folder / name, follow_links=False) as file:
            async for block in rt.objects.blocks(prefix + name):
                file.write(block)
        saved.append(folder / name)
    joined = not proof.get("join_error") and job.status is not JobStatus.CANCELLED
    own = CERTIFICATE if CERTIFICATE not in names else f"{job.ref.job}.{CERTIFICATE}"
    with whole_file(folder / own, follow_links=False) as file:
        file.write(json.dumps(proof, ensure_ascii=False, indent=1).encode() + b"\n")
    for path in [*saved, folder / own]:
        say(f"saved {path}")
    if saved and not joined:
        say(JOIN_FAILED_REMARK)
    return [*saved, folder / own]
