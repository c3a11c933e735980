"""The styles of a Word document: which paragraph is a heading, which is numbered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"

# Built-in names are English in the file, whatever the language of the program.
HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
TITLE = "title"

BODY_TEXT = 9  # the outline level of what is no heading


def value(element: Any, *path: str) -> str | None:
    """Return the `w:val` at the end of a path of children; "" without the attribute."""
    for tag in path:
        element = element.find(f"{W}{tag}")
        if element is None:
            return None
    return str(element.get(f"{W}val", ""))


def number(text: str | None) -> int | None:
    """Return a whole number of an attribute, None when it is absent or none."""
    return int(text) if text and text.isascii() and text.isdigit() else None


class Styles:
    """Looks up what a paragraph says of itself, then what its styles say."""

    def __init__(self, root: Iterable[Any]) -> None:
        self._styles = {
            style.get(f"{W}styleId"): style
            for style in root
            if style.tag == f"{W}style"
        }
        self._levels: dict[str | None, int] = {}

    def heading_level(self, paragraph: Any) -> int:
        """Return 1 for the highest heading, 0 for a paragraph that is none."""
        outline = number(value(paragraph, "pPr", "outlineLvl"))
        if outline is not None:
            return 0 if outline >= BODY_TEXT else outline + 1
        style = value(paragraph, "pPr", "pStyle")
        if style not in self._levels:
            self._levels[style] = self._style_level(style)
        return self._levels[style]

    def _style_level(self, style_id: str | None) -> int:
        for style in self._chain(style_id):
            name = value(style, "name") or ""
            if heading := HEADING.fullmatch(name):
                return int(heading[1])
            if name.lower() == TITLE:
                return 1
            outline = number(value(style, "pPr", "outlineLvl"))
            if outline is not None:
                return 0 if outline >= BODY_TEXT else outline + 1
        return 0

    def numbering(self, paragraph: Any) -> tuple[str | None, int | None, str | None]:
        """Return the numbering's id, the level, and the style that they come from."""
        own_id = value(paragraph, "pPr", "numPr", "numId")
        own_level = number(value(paragraph, "pPr", "numPr", "ilvl"))
        if own_id is not None:
            return own_id, own_level or 0, None
        for style in self._chain(value(paragraph, "pPr", "pStyle")):
            found = value(style, "pPr", "numPr", "numId")
            if found is not None:
                level = own_level
                if level is None:
                    level = number(value(style, "pPr", "numPr", "ilvl"))
                return found, level, style.get(f"{W}styleId")
        return None, None, None

    def _chain(self, style_id: str | None) -> Iterator[Any]:
        """Yield a style and those it is based on; a loop ends where it closes."""
        seen = set[str]()
        while style_id in self._styles and style_id not in seen:
            assert style_id is not None  # noqa: S101 -- told to the type checker
            seen.add(style_id)
            yield self._styles[style_id]
            style_id = value(self._styles[style_id], "basedOn")
