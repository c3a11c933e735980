"""Every entry point of a name from outside, and whether it lets a bad one through.

Each returns True for a name that it refuses, with an error code if a person asked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from piecework.aws.objects import own_key
from piecework.aws.payloads import PayloadRef
from piecework.aws.queue import read
from piecework.context import Results
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.errors import PermanentError
from piecework.jobs.manifest import Entry, read_manifest
from piecework.settings import InvalidSettingsError, Settings
from piecework_orchestrator.reading.job_documents import require_job
from piecework_orchestrator.results.artifacts import save_artifacts
from verification.security.typed_names import (
    export_to,
    refused,
    s3_input,
    save_into,
    submitted,
)

GOOD: dict[str, Any] = {"v": 1, "tenant": "acme", "job": "j", "chunk": 1, "gen": 1}


def message(field: str) -> Callable[[str], bool]:
    """Be a field of a message."""

    def refuses(name: str) -> bool:
        body = json.dumps(GOOD | {field: name})
        raw = {"Body": body, "ReceiptHandle": "r", "MessageId": "m"}
        return read(raw).message is None

    return refuses


def tenant(name: str) -> bool:
    """Be the tenant of a process's settings."""
    try:
        Settings(tenant=name)
    except InvalidSettingsError:
        return True
    return False


async def job(name: str) -> bool:
    """Be a job that a person names; no operator is asked."""

    async def ask(_: Any) -> None:
        raise AssertionError(name)

    rt: Any = SimpleNamespace(
        settings=Settings(), jobs=SimpleNamespace(read=ask, clock=None)
    )
    return await refused(require_job(rt, name))


async def artifact(name: str) -> bool:
    """Be a file that a join writes."""
    written: list[str] = []

    async def write(to: str, *_: Any) -> str:
        written.append(to)
        return to

    ctx: Any = SimpleNamespace(job_results=SimpleNamespace(write=write))
    return await refused(Results.write(ctx, name, b"")) and not written


def saved_to(folder: Path) -> Callable[[str], Awaitable[bool]]:
    """Be an artifact in the bucket that `results --save` finds there."""

    async def refuses(name: str) -> bool:
        before = files(folder)
        prefix = f"{keys.object_prefix('acme', 'j')}/artifacts/"
        listed = Listed(prefix + name)
        facts = {"status": "SUCCEEDED", "gen": 1, "chunks": 1, "pipeline": "p"}
        own: dict[str, Any] = {
            "certificate": f"{keys.object_prefix('acme', 'j')}/certificate/1.json",
            "certificate_sha256": keys.sha256(b"{}"),
        }
        ended = Job.read(JobRef("acme", "j"), facts | own)
        rt: Any = SimpleNamespace(objects=listed)
        saved = await save_artifacts(rt, ended, folder, lambda _: None)
        inside = [path for path in saved if path.parent == folder]
        certificates = [path for path in inside if path.name.endswith(".json")]
        new = files(folder) - before
        return saved == certificates and new <= set(certificates)

    return refuses


def files(folder: Path) -> set[Path]:
    """Return what is in a folder."""
    return set(folder.rglob("*"))


class Listed:
    """A bucket that lists one artifact."""

    def __init__(self, key: str) -> None:
        self.key = key

    async def names(self, _: str) -> Any:
        yield self.key

    async def get(self, key: str, *, most: int) -> bytes:
        assert "/certificate/" in key
        assert most
        return b"{}"

    async def blocks(self, _: str) -> Any:
        yield b"stolen"


def object_of_a_row(name: str) -> bool:
    """Be the key of a value, as a row of the table names it."""
    prefix = keys.object_prefix("acme", "j")
    for key in (name, f"{prefix}/{name}"):
        try:
            own_key(key, prefix)
        except PermanentError:
            continue
        return False
    return True


async def manifest_of_a_job(name: str) -> bool:
    """Be the manifest that a job's record names; nothing may be read."""

    class Nothing:
        def lines(self, key: str) -> Any:
            raise AssertionError(key)

    facts = {"status": "RUNNING", "gen": 1, "chunks": 1, "pipeline": "p"}
    damaged = Job.read(JobRef("acme", "j"), facts | {"manifest": name})
    objects: Any = Nothing()

    async def ask() -> None:
        async for _ in read_manifest(objects, damaged):
            pass

    return await refused(ask())


def pack_of_a_chunk(name: str) -> bool:
    """Be the pack in which a chunk's payload lies."""
    try:
        PayloadRef.parse(f"{name}/0+1")
    except PermanentError:
        return True
    return False


def line_of_a_manifest(name: str) -> bool:
    """Be where a manifest says that a payload lies."""
    try:
        Entry.read(json.dumps([0, "label", name, "00"]).encode())
    except PermanentError:
        return True
    return False


def entry_points(folder: Path) -> dict[str, Callable[[str], Any]]:
    """Return every entry point by its name in the figures."""
    return {
        "tenant of a message": message("tenant"),
        "job of a message": message("job"),
        "PIECEWORK_TENANT": tenant,
        "job on the command line": job,
        "ctx.write": artifact,
        "results, saved": saved_to(folder),
        "results --save DIR": save_into(folder),
        "dlq export --to": export_to(folder),
        "submit PATH": submitted,
        "value_at of a row": object_of_a_row,
        "manifest of a job": manifest_of_a_job,
        "line of a manifest": line_of_a_manifest,
        "payload of a chunk": pack_of_a_chunk,
        "s3:// input": s3_input,
    }


async def let_through(folder: Path, names: list[str]) -> dict[str, list[str]]:
    """Return what each entry point lets through: it should let nothing through."""
    found: dict[str, list[str]] = {}
    for place, refuses in entry_points(folder).items():
        passed = []
        for name in names:
            answer = refuses(name)
            if not (await answer if asyncio.iscoroutine(answer) else answer):
                passed.append(name)
        found[place] = passed
    return found
