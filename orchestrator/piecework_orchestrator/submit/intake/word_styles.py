"""Find the headings of a Word document, and the numbers that Word shows before text.

Word stores neither in the text. A style or an outline level makes a heading; list
definitions yield the numbers. Clauses refer to each other by these numbers. Without
them, a reference such as "see 4.2 (b)" has no target.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"

# Built-in style names are English in the file for every language of Word.
HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
TITLE = "title"

BODY_TEXT = 9  # the outline level of body text

BULLET = "-"

PLACEHOLDER = re.compile(r"%([1-9])")

ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc")),
    *((50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)

#: The kinds of numbers that legal style shows as they are.
ARABIC = frozenset({"custom", "decimal", "decimalZero"})

ALPHABET = 26

# Letters such as "aaaa…" grow with the number; longer ones are of no use.
MAX_LETTERS = 32


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


class Numbering:
    """Count the numbered paragraphs of one document, in document order."""

    def __init__(self, root: Iterable[Any]) -> None:
        elements = list(root)
        abstract = {
            e.get(f"{W}abstractNumId"): e
            for e in elements
            if e.tag == f"{W}abstractNum"
        }
        # A list by a list style has no levels: the list that defines it has them.
        defining = {read_value(e, "styleLink"): e for e in abstract.values()}
        for list_id, element in abstract.items():
            if link := read_value(element, "numStyleLink"):
                abstract[list_id] = defining.get(link, element)
        self._nums = {e.get(f"{W}numId"): e for e in elements if e.tag == f"{W}num"}
        self._lists = {
            num_id: abstract[read_value(num, "abstractNumId")]
            for num_id, num in self._nums.items()
            if read_value(num, "abstractNumId") in abstract
        }
        self._levels: dict[str, dict[int, Any]] = {}
        # Lists of the same abstract list share their counts.
        self._counts: dict[Any, dict[int, int]] = {}
        self._restarted = set[tuple[str, int]]()

    def next_marker(
        self, num_id: str | None, level: int | None, style_id: str | None
    ) -> str:
        """Count one paragraph; return the marker before it, or ""."""
        if num_id is None or num_id not in self._lists:
            return ""
        levels = self._levels_of(num_id)
        if level is None:
            level = _linked_level(levels, style_id)
        if level not in levels:
            return ""
        counts = self._count(num_id, level, levels)
        return _marker(level, levels, counts)

    def _levels_of(self, num_id: str) -> dict[int, Any]:
        """Return the levels of a list, with the overrides of this instance."""
        if num_id not in self._levels:
            own = [
                o.find(f"{W}lvl") for o in self._nums[num_id].iter(f"{W}lvlOverride")
            ]
            levels = [*self._lists[num_id].iter(f"{W}lvl"), *own]
            self._levels[num_id] = {
                depth: level
                for level in levels
                if level is not None
                and (depth := parse_number(level.get(f"{W}ilvl"))) is not None
            }
        return self._levels[num_id]

    def _count(self, num_id: str, level: int, levels: dict[int, Any]) -> dict[int, int]:
        counts = self._counts.setdefault(self._lists[num_id], {})
        restart = self._restart(num_id, level)
        if restart is not None:
            counts[level] = restart
        elif level in counts:
            counts[level] += 1
        else:
            counts[level] = _start(levels[level])
        for deeper in [depth for depth in counts if depth > level]:
            if _restarts(levels.get(deeper), level):
                del counts[deeper]
        return counts

    def _restart(self, num_id: str, level: int) -> int | None:
        """Return the start number if this instance of a list restarts; once only."""
        if (num_id, level) in self._restarted:
            return None
        self._restarted.add((num_id, level))
        for override in self._nums[num_id].iter(f"{W}lvlOverride"):
            if parse_number(override.get(f"{W}ilvl")) == level:
                return parse_number(read_value(override, "startOverride"))
        return None


def _linked_level(levels: dict[int, Any], style_id: str | None) -> int:
    """Return the level that names the style, because a style names only the list."""
    for depth, level in levels.items():
        if style_id is not None and read_value(level, "pStyle") == style_id:
            return depth
    return 0


def _restarts(deeper: Any, level: int) -> bool:
    """Return whether a paragraph of a level makes a deeper level start again."""
    last = None if deeper is None else parse_number(read_value(deeper, "lvlRestart"))
    return last is None or level < last  # 0: it never starts again


def _start(level: Any) -> int:
    start = parse_number(read_value(level, "start"))
    return 1 if start is None else start


def _marker(level: int, levels: dict[int, Any], counts: dict[int, int]) -> str:
    if read_value(levels[level], "numFmt") == "bullet":
        return BULLET
    legal = read_value(levels[level], "isLgl") not in {None, "0", "false"}

    def format_level(match: re.Match[str]) -> str:
        depth = int(match[1]) - 1
        if depth not in levels:
            return ""
        count = counts.get(depth, _start(levels[depth]))
        kind, width = _format(levels[depth])
        # Word keeps the zeros of "Section 1.01" in legal style.
        if legal and kind not in ARABIC:
            kind = "decimal"
        return _formatted(count, kind).zfill(width)

    return PLACEHOLDER.sub(
        format_level, read_value(levels[level], "lvlText") or ""
    ).strip()


def _format(level: Any) -> tuple[str, int]:
    """Return the kind of a level's number, and its least number of digits."""
    element = level.find(f"{W}numFmt")
    if element is None:  # a choice of Word 2010, beside one for older programs
        element = next(level.iter(f"{W}numFmt"), None)
    kind = "decimal" if element is None else str(element.get(f"{W}val", "decimal"))
    if kind != "custom":
        return kind, 0
    assert element is not None  # noqa: S101 -- for the type checker
    first = str(element.get(f"{W}format", "")).partition(",")[0].strip()
    digits = first.isascii() and first.isdigit()  # as in "001, 002, 003, ..."
    return "decimal", min(len(first), MAX_LETTERS) if digits else 0


def _formatted(count: int, kind: str) -> str:
    match kind:
        case "none":
            return ""
        case "lowerLetter" | "upperLetter" if count > 0:
            repeats = (count - 1) // ALPHABET + 1
            text = chr(ord("a") + (count - 1) % ALPHABET) * min(repeats, MAX_LETTERS)
        case "lowerRoman" | "upperRoman" if 0 < count < 4 * ROMAN[0][0]:
            text = _roman(count)
        case "decimalZero":
            text = f"{count:02}"
        case _:
            text = str(count)
    return text.upper() if kind.startswith("upper") else text


def _roman(count: int) -> str:
    text = ""
    for amount, letters in ROMAN:
        text += letters * (count // amount)
        count %= amount
    return text
