"""The manifest of a job: the list of all its chunks, written before the job.

Each chunk has one line, in order: number, label, position of the payload, SHA-256. A
chunk with an order key has three more fields. They are the hash of the key, and the
chunks before and after it, or null. The name of a manifest is its hash. So two
different submits under one job id cannot overwrite each other's manifest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import IO

from piecework.aws.objects import Objects, own_key
from piecework.aws.payloads import MOST_BYTES, PayloadRef
from piecework.domain import keys, records
from piecework.domain.job import Job
from piecework.errors import PermanentError

#: A line as `Entry.line` writes it, if the label needs no escapes. Almost every line of
#: a job matches, and a match costs a tenth of the time of the JSON reader.
_PLAIN = re.compile(
    rb"\[(0|[1-9][0-9]{0,7}), "
    rb'"([^"\\\x00-\x1f]{0,4096}+)", '
    rb'"([A-Za-z0-9_-]{1,64}/[0-9]{1,12}\+([0-9]{1,12}))", '
    rb'"([0-9a-f]{64})"\]'
)
_encode = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk as the manifest lists it.

    Attributes:
        order_key: The hash of its order key; empty: it has none.
        blocked_by: The chunk before it in its order key.
        followed_by: The chunk after it in its order key.
    """

    chunk: int
    label: str
    payload: str
    sha256: str
    order_key: str = ""
    blocked_by: int | None = None
    followed_by: int | None = None

    def line(self) -> bytes:
        """Return the entry as a line."""
        fields = [self.chunk, self.label, self.payload, self.sha256]
        if self.order_key:
            fields += [self.order_key, self.blocked_by, self.followed_by]
        return _encode(fields).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Entry:
        """Read a line.

        Raises:
            PermanentError: `runtime.record.unreadable`.
        """
        return _plain(line) or cls._read_any(line)

    @classmethod
    def _read_any(cls, line: bytes) -> Entry:
        match records.read_value(line, "A line of the manifest"):
            case [int(chunk), str(label), str(payload), str(sha256), *order] if (
                is_number(chunk) and is_order(order)
            ):
                PayloadRef.parse(payload)
                return cls(chunk, label, payload, sha256, *order)
        raise records.unreadable_error("A line of the manifest", "is malformed")

    def item(self, stage: str) -> dict[str, str | int]:
        """Return what a new chunk item takes from the entry."""
        facts = {"payload": self.payload, "payload_sha256": self.sha256, "stage": stage}
        found: dict[str, str | int] = {**facts}
        if self.label:
            found["label"] = self.label
        if self.order_key:
            found["order_key"] = self.order_key
        if self.blocked_by is not None:
            found["blocked_by"] = self.blocked_by
        if self.followed_by is not None:
            found["followed_by"] = self.followed_by
        return found


def is_number(found: object) -> bool:
    """Return whether a value is the number of a chunk."""
    return type(found) is int and 0 <= found <= keys.MAX_CHUNK_NUMBER


def is_order(found: list[object]) -> bool:
    """Return whether the further fields of a line are those of an order key."""
    match found:
        case []:
            return True
        case [str(key), before, after]:
            numbers = [each for each in (before, after) if each is not None]
            return bool(key) and all(map(is_number, numbers))
    return False


def _plain(line: bytes) -> Entry | None:
    """Return the entry of a line as we write it; None: read it as any JSON."""
    found = _PLAIN.fullmatch(line)
    if found is None or not 0 < int(found[4]) <= MOST_BYTES:
        return None
    try:
        label = found[2].decode()
    except UnicodeDecodeError:
        return None
    return Entry(int(found[1]), label, found[3].decode(), found[5].decode())


async def read_manifest(objects: Objects, job: Job) -> AsyncGenerator[Entry, None]:
    """Yield the entries of a job's manifest, one at a time.

    Raises:
        PermanentError: `runtime.record.unreadable`: a line or its key is malformed.
            `runtime.payload.corrupt`: after the last line, the hash differs.
    """
    prefix = keys.object_prefix(job.ref.tenant, job.ref.job)
    key = own_key(job.manifest, prefix)
    digest = hashlib.sha256()
    async for line in objects.lines(key):
        digest.update(line + b"\n")
        yield Entry.read(line)
    if digest.hexdigest() != job.manifest_sha256:
        message = f"The manifest of job {job.ref.job} is not the one it was given."
        raise PermanentError(message, code="runtime.payload.corrupt")


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
    key = keys.manifest_key(tenant, job, sha256)
    return await objects.put(key, spool, "application/jsonl"), sha256
