"""The list of a job's chunks, written before the job: what "all" means.

One line a chunk, in order: its number, label, where its payload lies, its SHA-256.
The manifest is named by its own hash, so that two different submits under one job id
cannot overwrite each other's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import IO

from piecework import keys
from piecework.objects import Objects


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk as the manifest lists it."""

    chunk: int
    label: str
    payload: str
    sha256: str

    def line(self) -> bytes:
        """Return the entry as a line."""
        fields = [self.chunk, self.label, self.payload, self.sha256]
        return json.dumps(fields, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Entry:
        """Read a line."""
        chunk, label, payload, sha256 = json.loads(line)
        return cls(chunk, label, payload, sha256)

    def item(self, stage: str) -> dict[str, str]:
        """Return what a new chunk item takes from the entry."""
        facts = {"payload": self.payload, "payload_sha256": self.sha256, "stage": stage}
        return facts | ({"label": self.label} if self.label else {})


def manifest_key(tenant: str, job: str, sha256: str) -> str:
    """Return the object of a manifest."""
    return f"{keys.object_prefix(tenant, job)}/manifest/{sha256}.jsonl"


async def read_manifest(objects: Objects, key: str) -> AsyncIterator[Entry]:
    """Yield the entries of a manifest, without holding it."""
    async for line in objects.lines(key):
        yield Entry.read(line)


async def write_manifest(
    objects: Objects, tenant: str, job: str, spool: IO[bytes]
) -> tuple[str, str]:
    """Store a spooled manifest; return its key and SHA-256."""
    digest = hashlib.sha256()
    spool.seek(0)
    while block := spool.read(1 << 20):
        digest.update(block)
    spool.seek(0)
    sha256 = digest.hexdigest()
    key = manifest_key(tenant, job, sha256)
    return await objects.put(key, spool, "application/jsonl"), sha256
