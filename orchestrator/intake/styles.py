"""Find headings and numbered paragraphs by the styles of a Word document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"

# Built-in style names are English in the file for every language of Word.
HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
TITLE = "title"

BODY_TEXT = 9  # the outline level of body text


def read_value(element: Any, *path: str) -> str | None:
    """Return the `w:val` at a path of children, "" without it, None without a child."""
    for tag in path:
        element = element.find(f"{W}{tag}")
        if element is None:
            return None
    return str(element.get(f"{W}val", ""))


def parse_number(text: str | None) -> int | None:
    """Return the whole number in an attribute, or None if it is absent or invalid."""
    return int(text) if text and text.isascii() and text.isdigit() else None


class Styles:
    """Read a property from a paragraph, else from its styles."""

    def __init__(self, root: Iterable[Any]) -> None:
        self._styles = {
            style.get(f"{W}styleId"): style
            for style in root
            if style.tag == f"{W}style"
        }
        self._levels: dict[str | None, int] = {}

    def heading_level(self, paragraph: Any) -> int:
        """Return 1 for the highest heading, and 0 for a paragraph without a level."""
        outline = parse_number(read_value(paragraph, "pPr", "outlineLvl"))
        if outline is not None:
            return 0 if outline >= BODY_TEXT else outline + 1
        style = read_value(paragraph, "pPr", "pStyle")
        if style not in self._levels:
            self._levels[style] = self._style_level(style)
        return self._levels[style]

    def _style_level(self, style_id: str | None) -> int:
        for style in self._chain(style_id):
            name = read_value(style, "name") or ""
            if heading := HEADING.fullmatch(name):
                return int(heading[1])
            if name.lower() == TITLE:
                return 1
            outline = parse_number(read_value(style, "pPr", "outlineLvl"))
            if outline is not None:
                return 0 if outline >= BODY_TEXT else outline + 1
        return 0

    def numbering(self, paragraph: Any) -> tuple[str | None, int | None, str | None]:
        """Return numbering id, level, and the style that defines them."""
        own_id = read_value(paragraph, "pPr", "numPr", "numId")
        own_level = parse_number(read_value(paragraph, "pPr", "numPr", "ilvl"))
        if own_id is not None:
            return own_id, own_level or 0, None
        for style in self._chain(read_value(paragraph, "pPr", "pStyle")):
            found = read_value(style, "pPr", "numPr", "numId")
            if found is not None:
                level = own_level
                if level is None:
                    level = parse_number(read_value(style, "pPr", "numPr", "ilvl"))
                return found, level, style.get(f"{W}styleId")
        return None, None, None

    def _chain(self, style_id: str | None) -> Iterator[Any]:
        """Yield a style and its base styles, each once even if they form a loop."""
        seen = set[str]()
        while style_id in self._styles and style_id not in seen:
            assert style_id is not None  # noqa: S101 -- for the type checker
            seen.add(style_id)
            yield self._styles[style_id]
            style_id = read_value(self._styles[style_id], "basedOn")
