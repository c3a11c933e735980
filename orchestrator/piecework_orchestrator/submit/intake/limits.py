"""Limits on one submission; a larger input is refused before a job is created."""

from __future__ import annotations

from dataclasses import dataclass

from piecework.domain.payload import PAYLOAD_LIMIT

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """Limits on one submission; the error names the value and the limit."""

    # A whole document is in memory, as bytes and as text: a few times this size.
    document_bytes: int = 64 * MIB
    # All members of a .docx together; most may be pictures, which stay packed.
    docx_unpacked_bytes: int = 256 * MIB
    # The XML members are parsed into trees of about ten times this size.
    docx_xml_bytes: int = 64 * MIB
    # Word compresses prose 5 to 20 times; only a zip bomb reaches a hundred times.
    docx_ratio: int = 100
    # A document has some dozen members; each takes memory before it is read.
    docx_members: int = 10_000
    # A cell takes 20 microseconds, so this is four seconds.
    docx_cells: int = 200_000
    # A page takes about 3 ms of CPU, so this is 15 seconds; no contract is that long.
    pdf_pages: int = 5_000
    # 396 files with 13,334 pages took 35 s together; a small bomb can take hours.
    pdf_cpu_s: int = 30
    # The addresses of its process, beside four times the file. A third of these files
    # took 37 MiB of memory at the most.
    pdf_memory_bytes: int = 256 * MIB
    # A small PDF may repeat one large text on each of its pages.
    pdf_characters: int = 64 * MIB
    # A whole line is in memory; no accepted payload is longer than this as JSON.
    line_bytes: int = MIB
    payload_bytes: int = PAYLOAD_LIMIT
    # At the end of a job, the ids of its chunks are compared as one set in memory.
    chunks: int = 10_000_000


DEFAULT_INTAKE_LIMITS = IntakeLimits()


# ── names of files as valid text ──────────────────────────────────────────────


def printable_name(name: str) -> str:
    """Return the name with a replacement character for bytes that are not UTF-8."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
