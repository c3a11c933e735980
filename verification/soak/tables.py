"""The first judge: every job has ended, and every chunk of it is accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import PieceworkError
from piecework.jobs.fan_in import Certificate, StoredJobResults
from piecework.jobs.manifest import read_manifest
from piecework.runtime import Runtime
from piecework.store.completion import JobSnapshot, take_snapshot
from piecework.store.dead_letters import REDRIVEN, DeadLetters


@dataclass(frozen=True, slots=True)
class Accounts:
    """The result in the tables.

    Attributes:
        lost: Submitted chunks without a result that agrees with the certificate. They
            also have no dead letter and no cancel.
        failures: Each in words.
    """

    chunks: int
    succeeded: int
    lost: int
    nonterminal: int
    failures: tuple[str, ...]


async def account(rt: Runtime, jobs: Iterable[str], expected: int) -> Accounts:
    """Count everything, from the manifests to the values."""
    chunks = succeeded = lost = nonterminal = 0
    failures: list[str] = []
    for name in jobs:
        job = await rt.jobs.read(JobRef(rt.settings.tenant, name))
        if job is None or not job.status.ended:
            nonterminal += 1
            status = job.status if job else "not on record"
            failures.append(f"{name} is {status}")
        if job is None:
            continue
        snapshot = await take_snapshot(rt.table, job.ref, job.chunks)
        listed = {e.chunk async for e in read_manifest(rt.objects, job)}
        missing, said = await unaccounted(rt, job, snapshot, listed)
        failures += said
        chunks += len(listed)
        lost += len(missing)
        succeeded += snapshot.by_status[ChunkStatus.SUCCEEDED]
    lost += max(0, expected - chunks)
    return Accounts(chunks, succeeded, lost, nonterminal, tuple(failures))


async def unaccounted(
    rt: Runtime, job: Job, snapshot: JobSnapshot, listed: set[int]
) -> tuple[set[int], list[str]]:
    """Return the chunks whose end is unknown, also in words."""
    certificate = await certificate_of(rt, job)
    if certificate is None:
        return listed, [f"{job.ref.job} has no certificate"]
    rows = [row async for row in letters(rt).of_job(job.ref)]
    dead = {row.chunk for row in rows}
    stored = await stored_results(rt, job, snapshot)
    known = set(certificate.results) & stored
    by_status = {row.chunk: row.status for row in snapshot.rows}
    known |= {n for n in dead if by_status.get(n) is ChunkStatus.DEAD}
    if job.status is JobStatus.CANCELLED:
        ended = {n for n in listed if by_status.get(n) is not ChunkStatus.SUCCEEDED}
        known |= ended
    told = set(certificate.results) | {m.chunk for m in certificate.missing}
    said = [f"{job.ref.job}/{n} is lost" for n in sorted(listed - known)]
    said += [f"{job.ref.job}/{one}" for one in odd_letters(rows, by_status)]
    if told != listed:
        said.append(f"{job.ref.job}: the certificate names {len(told)} chunks")
    if set(by_status) - listed:
        said.append(f"{job.ref.job} has chunks that its manifest does not list")
    return listed - known, said


def odd_letters(
    rows: Sequence[DeadLetterRow], by_status: Mapping[int, ChunkStatus]
) -> Iterator[str]:
    """Yield what does not fit: a dead chunk has one letter that was not redriven.

    It is open, or an operator discarded it. The join has no status here.
    """
    kept = Counter(r.chunk for r in rows if r.state != REDRIVEN)
    for chunk, status in by_status.items():
        expected = int(status is ChunkStatus.DEAD)
        if kept[chunk] != expected:
            yield f"{chunk} is {status}, and has {kept[chunk]} letters left"


async def certificate_of(rt: Runtime, job: Job) -> Certificate | None:
    """Return the job's certificate, if it is the one that its record means."""
    if "certificate" not in job.item:
        return None
    content = await rt.objects.get(str(job.item["certificate"]))
    found = Certificate.model_validate_json(content)
    same = (found.gen, found.status) == (job.gen, job.status)
    return found if same else None


async def stored_results(rt: Runtime, job: Job, snapshot: JobSnapshot) -> set[int]:
    """Return the chunks whose stored value is the one that they settled with."""
    job_results = StoredJobResults(rt.table, rt.objects, job.ref, snapshot)
    try:
        return {result.chunk async for result in job_results.results()}
    except PieceworkError:
        return set()


def letters(rt: Runtime) -> DeadLetters:
    """Return the dead letters."""
    return DeadLetters(rt.dead_letters, rt.settings, rt.clock)
