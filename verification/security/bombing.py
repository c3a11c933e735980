"""Payload bombs on a true worker: a code for each, and its memory at the largest."""

from __future__ import annotations

import asyncio
import json
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from piecework.aws.payloads import MOST_BYTES, PayloadRef
from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework.runtime import Runtime
from verification.security.deployment import ended, peak_mb, started, worker
from verification.security.heavy import WAYS, Bomb, heavy

REF = JobRef("default", "heavy")
#: Megabytes below which a worker stays, whatever it is given.
MOST_MB = 256
#: What each bomb has to end with.
EXPECTED = {
    "result": "runtime.value.too_large",
    "message": "runtime.stage.unhandled",
    "note": "runtime.stage.unhandled",
    "deep": "runtime.value.unserialisable",
    "wide": "runtime.value.unserialisable",
    "payload deep": "runtime.payload.invalid",
    "payload wide": "runtime.payload.invalid",
    "payload key twice": "runtime.payload.invalid",
    "payload of a gigabyte": "runtime.record.unreadable",
    "payload elsewhere": "runtime.record.unreadable",
}


@dataclass(slots=True)
class Bombed:
    """The outcome of the bombs, and the worker's use of memory."""

    codes: dict[str, str] = field(default_factory=dict)
    peak_mb: float = 0.0


def payloads() -> Iterator[tuple[str, bytes]]:
    """Yield payloads that are put in the place of good ones, in the bucket."""
    deep = 5_000_000
    yield "payload deep", b"[" * deep + b"]" * (MOST_BYTES - deep)
    yield "payload wide", b"[" + b"0," * (MOST_BYTES // 2 - 2) + b"0]"
    yield "payload key twice", b'{"way":"fine","way":"result"}'


async def bombed(rt: Runtime) -> Bombed:
    """Give all of them to one worker."""
    names = [*WAYS, *(name for name in EXPECTED if name.startswith("payload"))]
    chunks = [Bomb(way=way if way in WAYS else "fine") for way in names]
    await started(rt, REF, heavy, chunks)
    for name, content in payloads():
        pack = keys.sha256(content)[:32]
        await rt.objects.put(keys.pack_key(REF.tenant, REF.job, pack), content)
        place = PayloadRef(pack, 0, len(content))
        await point(rt, names.index(name), str(place), keys.sha256(content))
    await point(rt, names.index("payload of a gigabyte"), f"p/0+{1 << 30}", "0" * 64)
    there = "../../../other/jobs/j/payload/p/0+10"
    await point(rt, names.index("payload elsewhere"), there, "0" * 64)
    found = Bombed()
    more = {"PIECEWORK_MAX_ATTEMPTS": "1", "PIECEWORK_LEASE_S": "20"}
    more |= {"PIECEWORK_VISIBILITY_S": "30", "PIECEWORK_MAX_CHUNKS": "2"}
    async with worker(["verification.security.heavy"], more) as finished:
        await ended(rt, REF, within=180)
    found.peak_mb = finished.peak_mb
    async for letter in rt.dead_letters.query(REF.pk):
        found.codes[names[int(letter["chunk"])]] = str(letter["error_code"])
    return found


async def point(rt: Runtime, chunk: int, place: str, sha256: str) -> None:
    """Point a chunk to another payload, as a writer to the table can."""
    ref = REF.chunk(chunk)
    await rt.table.update(
        rt.table.item_write(
            "Update",
            ref.pk,
            ref.sk,
            update="SET payload = :place, payload_sha256 = :sha256",
            values={"place": place, "sha256": sha256},
        )
    )


# ── documents ───────────────────────────────────────────────────────────────


def pdf_bomb(path: Path) -> None:
    """Write a PDF of some hundred kilobytes whose one page unpacks to 200 MB."""
    packer, packed = zlib.compressobj(9), b""
    for _ in range(200):
        packed += packer.compress(b"BT (a) Tj ET\n" * 80_660)
    packed += packer.flush()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream"
        % (len(packed), packed),
    ]
    content, places = b"%PDF-1.7\n", []
    for number, each in enumerate(objects, start=1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    at = len(content)
    content += b"xref\n0 5\n0000000000 65535 f \n" + table
    content += b"trailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % at
    path.write_bytes(content)


READING = """
import json, os, resource, sys
from pathlib import Path
from piecework_orchestrator.submit.intake.documents import read_document
from piecework_orchestrator.submit.intake.limits import DEFAULT_INTAKE_LIMITS
from piecework.errors import PieceworkError
from verification.security.deployment import peak_mb
path = Path(sys.argv[1])
try:
    document = read_document(path, path.name, DEFAULT_INTAKE_LIMITS)
    code = f"{len(document.text)} characters"
except PieceworkError as error:
    code = error.code
# A PDF is read in a process of its own.
apart = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(json.dumps([code, max(peak_mb(os.getpid()), apart)]))
"""


async def read_apart(path: Path) -> tuple[str, float]:
    """Read a document in a process of its own: its code, and its memory."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", READING, str(path)), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    code, peak = json.loads(out)
    return str(code), float(peak)


__all__ = ["EXPECTED", "MOST_MB", "bombed", "pdf_bomb", "peak_mb", "read_apart"]
