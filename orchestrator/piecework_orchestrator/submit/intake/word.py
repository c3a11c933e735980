"""Read a Word document: paragraphs, lists and tables in order, headings as markdown.

python-docx opens the package, and this module walks the XML itself. The library's own
walk skips inserted text of tracked changes and content controls, so a review would miss
clauses. A footnote or endnote is read where its mark is. Deleted text, headers, footers
and comments are not read.
"""

# ruff: noqa: RUF001 -- the font Symbol has such characters
from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from piecework.errors import UsageError
from piecework.errors.extras import naming_extras
from piecework_orchestrator.submit.intake.limits import IntakeLimits
from piecework_orchestrator.submit.intake.word_container import (
    check_container,
    too_large_error,
    transitional,
    unreadable_error,
)
from piecework_orchestrator.submit.intake.word_styles import (
    Numbering,
    Styles,
    W,
    read_value,
)

# Elements without visible text: deleted or moved text, properties, field codes, and
# the second copy of drawings for old programs.
SKIPPED_ELEMENTS = frozenset(
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

CHARACTERS = {
    f"{W}tab": "\t",
    f"{W}br": "\n",
    f"{W}cr": "\n",
    f"{W}noBreakHyphen": "-",
}

NOTE_MARKS = {f"{W}footnoteReference": "footnote", f"{W}endnoteReference": "endnote"}

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"

# Parts of an equation, by the mark before them; brackets keep (a + b)/(c) one fraction.
MARKS = {"num": "", "den": "/", "d": "", "rad": "√", "sub": "_", "sup": "^"}
BRACKETED = {f"{M}{tag}": mark for tag, mark in MARKS.items()}

# The characters of the font Symbol from 0x20 and from 0xA0; of Wingdings, check boxes.
LOW = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_"
    "‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
)
HIGH = (
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓"
    "◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪\ufffd〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"
)
FONTS = {
    "Symbol": dict(enumerate(LOW, 0x20)) | dict(enumerate(HIGH, 0xA0)),
    "Wingdings": dict(zip(b"o\xa8\xfb\xfc\xfd\xfe", "☐☐✗✓☒☑", strict=True)),
}

DEEPEST_HEADING = 6


def read(data: bytes, name: str, limits: IntakeLimits) -> str:
    """Return the text, with a blank line between blocks.

    Raises:
        UsageError: `input.file.encrypted`, `input.file.unreadable`,
            `input.file.too_large`, `cli.extra.missing`.
    """
    check_container(data, name, limits)
    with naming_extras():
        from docx import Document
        from docx.opc.constants import RELATIONSHIP_TYPE

    try:
        part = Document(io.BytesIO(transitional(data, name))).part
        related = {
            r.reltype: r.target_part for r in part.rels.values() if not r.is_external
        }
        style_root = _root(related.get(RELATIONSHIP_TYPE.STYLES))
        number_root = _root(related.get(RELATIONSHIP_TYPE.NUMBERING))
        for root in (part.element, style_root, number_root):
            check_document_type(root, name)
        _check_cells(part.element, name, limits)
        notes = {
            kind: _notes(related.get(relation), name)
            for kind, relation in (
                ("footnote", RELATIONSHIP_TYPE.FOOTNOTES),
                ("endnote", RELATIONSHIP_TYPE.ENDNOTES),
            )
        }
        reading = Reading(Styles(style_root), Numbering(number_root), notes)
        return "\n\n".join(_blocks(part.element.body, reading))
    except UsageError:
        raise
    except Exception as error:
        # The input is untrusted, so the parser may raise any exception.
        raise unreadable_error(name, error) from error


@dataclass
class Reading:
    """What the reader of one document knows.

    Attributes:
        notes: The footnotes and the endnotes by their ids.
        numbered: The number of each note that was met, in the order of their marks.
        in_note: Whether a note is read: a note contains no other.
    """

    styles: Styles
    numbering: Numbering
    notes: dict[str, dict[str, Any]]
    numbered: dict[tuple[str, str], int] = field(default_factory=dict)
    in_note: bool = False


def _notes(part: Any, name: str) -> dict[str, Any]:
    """Return the notes of a part by their ids."""
    if part is None:
        return {}
    from docx.oxml import parse_xml

    root = parse_xml(part.blob)  # python-docx keeps this part as bytes
    check_document_type(root, name)
    return {str(note.get(f"{W}id")): note for note in root}


def _note(kind: str, note_id: str, reading: Reading) -> str:
    """Return a note in brackets; its text only once, or a file could grow."""
    note = reading.notes[kind].get(note_id)
    if note is None or reading.in_note:
        return ""
    key = (kind, note_id)
    if key in reading.numbered:
        return f" [{kind} {reading.numbered[key]}]"
    number = 1 + sum(1 for other, _ in reading.numbered if other == kind)
    reading.numbered[key] = number
    reading.in_note = True
    text = " ".join(" ".join(_blocks(note, reading)).split())
    reading.in_note = False
    return f" [{kind} {number}: {text}]"


def _root(part: Any) -> Any:
    return () if part is None else part.element


def check_document_type(root: Any, name: str) -> None:
    """Refuse a document type: text after an entity of it would be lost.

    The parser expands no entity, so that a document can neither read files nor grow.
    Word writes no document type.
    """
    if len(root) and root.getroottree().docinfo.internalDTD is not None:
        raise UsageError(
            f"{name} contains a document type declaration (DTD).",
            code="input.file.unreadable",
            next_step="Open it in Word and save it again as .docx.",
            file=name,
        )


def _check_cells(root: Any, name: str, limits: IntakeLimits) -> None:
    cells = sum(1 for _ in root.iter(f"{W}tc"))
    if cells > limits.docx_cells:
        raise too_large_error(name, f"{cells:,} table cells", limits.docx_cells)


def _blocks(parent: Any, reading: Reading) -> Iterator[str]:
    """Yield paragraphs and tables in order, including those in wrapper elements."""
    for child in parent:
        if child.tag == f"{W}p":
            block = _paragraph(child, reading)
        elif child.tag == f"{W}tbl":
            block = "\n".join(_rows(child, reading))
        elif child.tag in SKIPPED_ELEMENTS:
            continue
        else:
            yield from _blocks(child, reading)
            continue
        if block:
            yield block


def _paragraph(paragraph: Any, reading: Reading) -> str:
    text = "".join(_runs(paragraph, reading)).strip()
    marker = ""
    # Word counts an empty paragraph too, unless the end of the paragraph was deleted.
    if read_value(paragraph, "pPr", "rPr", "del") is None:
        marker = reading.numbering.next_marker(*reading.styles.numbering(paragraph))
    if not text:
        return ""
    level = reading.styles.heading_level(paragraph)
    heading = "#" * min(level, DEEPEST_HEADING)
    return " ".join(part for part in (heading, marker, text) if part)


def _runs(parent: Any, reading: Reading) -> Iterator[str]:
    for child in parent:
        if child.tag in {f"{W}t", f"{M}t"}:
            yield child.text or ""
        elif child.tag in CHARACTERS:
            yield CHARACTERS[child.tag]
        elif child.tag == f"{W}sym":
            yield _symbol(child.get(f"{W}font"), child.get(f"{W}char", "FFFD"))
        elif kind := NOTE_MARKS.get(child.tag):
            yield _note(kind, child.get(f"{W}id", ""), reading)
        elif child.tag == f"{M}chr":  # the sign of a sum
            yield child.get(f"{M}val", "")
        elif child.tag in BRACKETED:
            text = "".join(_runs(child, reading))
            yield f"{BRACKETED[child.tag]}({text})" if text else ""
        elif child.tag not in SKIPPED_ELEMENTS:
            yield from _runs(child, reading)
            if child.tag == f"{W}p":  # a paragraph of a text box
                yield "\n"


def _symbol(font: str | None, code: str) -> str:
    """Return the character of a symbol, or U+FFFD in place of an unknown one."""
    number = int(code, 16)
    # Word moves the codes of a symbol font into the private area from U+F000.
    known = FONTS.get(font or "", {}).get(number & 0xFF)
    return known or (chr(number) if chr(number).isprintable() else "\ufffd")


def _rows(table: Any, reading: Reading) -> Iterator[str]:
    """Yield each row that was not deleted, its cells joined."""
    for row in _nearest(table, f"{W}tr"):
        if read_value(row, "trPr", "del") is not None:
            continue
        cells = [
            " ".join(" ".join(_blocks(cell, reading)).split())
            for cell in _nearest(row, f"{W}tc")
        ]
        if any(cells):
            yield " | ".join(cells)


def _nearest(parent: Any, tag: str) -> Iterator[Any]:
    """Yield the elements with a tag that are in no other such element."""
    for child in parent:
        if child.tag == tag:
            yield child
        else:
            yield from _nearest(child, tag)
