"""Word: paragraphs, lists and tables in document order, headings as markdown.

python-docx opens the package; the walk over its XML is our own, because the library's
passes over inserted text of tracked changes and over content controls, and a review
that misses a clause is worse than none. Deleted text is left out. Headers, footers,
footnotes and comments are not read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from orchestrator.intake.container import broken, require_sound
from orchestrator.intake.limits import Limits
from orchestrator.intake.numbering import Numbering
from orchestrator.intake.styles import Styles, W, value

# Not said by the document as it stands: deleted or moved away, properties, the code
# of fields, and the second copy of drawings that is kept for old programs.
UNSAID = frozenset(
    {
        f"{W}del",
        f"{W}moveFrom",
        f"{W}pPr",
        f"{W}rPr",
        f"{W}instrText",
        f"{W}sdtPr",
        "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
    }
)

SIGNS = {
    f"{W}tab": "\t",
    f"{W}br": "\n",
    f"{W}cr": "\n",
    f"{W}noBreakHyphen": "-",
}

DEEPEST_HEADING = 6


def read(data: bytes, name: str, limits: Limits) -> str:
    """Return the text, blocks parted by blank lines.

    Raises:
        UsageError: When it is encrypted, broken or too large.
    """
    require_sound(data, name, limits)
    from docx import Document
    from docx.opc.constants import RELATIONSHIP_TYPE

    try:
        part = Document(io.BytesIO(data)).part
        related = {
            r.reltype: r.target_part for r in part.rels.values() if not r.is_external
        }
        styles = Styles(_root(related.get(RELATIONSHIP_TYPE.STYLES)))
        numbering = Numbering(_root(related.get(RELATIONSHIP_TYPE.NUMBERING)))
        return "\n\n".join(_blocks(part.element.body, styles, numbering))
    except Exception as error:
        # The parser meets hostile bytes, and fails in as many ways as there are.
        raise broken(name, error) from error


def _root(part: Any) -> Any:
    return () if part is None else part.element


def _blocks(parent: Any, styles: Styles, numbering: Numbering) -> Iterator[str]:
    """Yield paragraphs and tables, in order, wherever they are wrapped."""
    for child in parent:
        if child.tag == f"{W}p":
            block = _paragraph(child, styles, numbering)
        elif child.tag == f"{W}tbl":
            block = "\n".join(_rows(child, styles, numbering))
        elif child.tag in UNSAID:
            continue
        else:
            yield from _blocks(child, styles, numbering)
            continue
        if block:
            yield block


def _paragraph(paragraph: Any, styles: Styles, numbering: Numbering) -> str:
    said = "".join(_runs(paragraph)).strip()
    marker = ""
    if value(paragraph, "pPr", "rPr", "del") is None:  # its end was not deleted
        # An empty paragraph is counted too, as on the page.
        marker = numbering.next_marker(*styles.numbering(paragraph))
    if not said:
        return ""
    level = styles.heading_level(paragraph)
    heading = "#" * min(level, DEEPEST_HEADING)
    return " ".join(part for part in (heading, marker, said) if part)


def _runs(parent: Any) -> Iterator[str]:
    for child in parent:
        if child.tag == f"{W}t":
            yield child.text or ""
        elif child.tag in SIGNS:
            yield SIGNS[child.tag]
        elif child.tag not in UNSAID:
            yield from _runs(child)
            if child.tag == f"{W}p":  # of a text box within the paragraph
                yield "\n"


def _rows(table: Any, styles: Styles, numbering: Numbering) -> Iterator[str]:
    """Yield each row that was not deleted, its cells joined."""
    for row in table.iter(f"{W}tr"):
        if next(row.iterancestors(f"{W}tbl")) is not table:
            continue  # of a table within a cell, which is read with the cell
        if value(row, "trPr", "del") is not None:
            continue
        cells = [
            " ".join(" ".join(_blocks(cell, styles, numbering)).split())
            for cell in row.iter(f"{W}tc")
            if next(cell.iterancestors(f"{W}tr")) is row
        ]
        if any(cells):
            yield " | ".join(cells)
