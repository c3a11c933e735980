"""How much may be handed in at once: past these sizes a job is refused, not tried."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one submission; what exceeds one is refused by name and figure."""

    # A document is held in memory whole, as bytes and as text: a few times this.
    document_bytes: int = 64 * MIB
    # All members of a .docx together; most of it may be pictures, which stay packed.
    docx_unpacked_bytes: int = 256 * MIB
    # The XML members are parsed into trees of about ten times their size.
    docx_xml_bytes: int = 64 * MIB
    # Word packs prose 5 to 20 times smaller; only a bomb packs a hundred times.
    docx_ratio: int = 100
    # A document has some dozen members; each costs memory before it is even read.
    docx_members: int = 10_000
    # About 10 ms of CPU a page: a minute of reading, longer than any contract.
    pdf_pages: int = 5_000
    # A small PDF may show one large text on each of its pages.
    pdf_characters: int = 64 * MIB
    # A line is held whole; no payload that may pass is longer than this as JSON.
    line_bytes: int = MIB
    # Payloads are packed and read back whole by workers, dozens at a time.
    payload_bytes: int = 256 * KIB
    # The ids of a job's chunks are compared as one set when it ends.
    chunks: int = 10_000_000


DEFAULT_LIMITS = Limits()
