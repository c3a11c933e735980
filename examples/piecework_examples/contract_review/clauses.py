"""Cut a contract into its numbered clauses; each becomes a chunk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pydantic import Field

from piecework import Document
from piecework_examples.contract_review.findings import Record

GROUP: Final = 1_500  # characters of a chunk when a text has no numbered clauses
PREAMBLE_WORDS: Final = 40
LABEL: Final = 64

_NUMBER: Final = r"(?P<number>\d{1,3}|[IVXLC]{1,7})"
#: `## 4. Limitation`, `4. LIMITATION`, `Section 4 - Limitation`, `## Article IV: ...`
_NAMED: Final = re.compile(
    rf"^(?:#{{1,6}}\s*)?(?:\*\*)?(?:section|article|clause)\s+{_NUMBER}"
    r"(?:\s*[-–—.:)]+\s*(?P<title>\S.*?)?)?(?:\*\*)?\s*$",
    re.IGNORECASE,
)
_MARKED: Final = re.compile(rf"^#{{1,6}}\s*{_NUMBER}\s*[-–—.:)]\s*(?P<title>\S.*?)\s*$")
_PLAIN: Final = re.compile(
    rf"^(?:\*\*)?{_NUMBER}[.)]\s+(?P<title>[A-Z][^.;:]{{2,80}}?)\.?(?:\*\*)?\s*$"
)
#: `Schedule B - Rates`: counted on from the last clause
_ANNEX: Final = re.compile(
    r"^(?:#{1,6}\s*)?(?:\*\*)?(?P<title>(?:annex|appendix|exhibit|schedule)"
    r"\s+(?:\d{1,2}|[A-Z])\b(?:\s*[-–—.:)]+\s*\S.{0,80})?)(?:\*\*)?\s*$",
    re.IGNORECASE,
)
#: `4. Limitation of Liability. Neither party shall ...`
_RUN_IN: Final = re.compile(
    rf"^(?:\*\*)?{_NUMBER}[.)]\s+(?P<title>[A-Z][^.;:]{{2,70}})\.(?:\*\*)?\s+(?P<rest>\S.*)$"
)
_SMALL_WORDS: Final = "a an and as at by for from in of on or the to with"
_SMALL: Final = frozenset(_SMALL_WORDS.split())
_ROMAN: Final = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


class Clause(Record):
    """One clause: what a chunk carries."""

    number: int
    heading: str
    text: str = Field(min_length=1)


def split(document: Document) -> Iterator[Clause]:
    """Yield a document's clauses; a text without any is grouped by paragraphs."""
    found = list(_numbered(document.text)) or list(_sections(document.text))
    yield from found or _grouped(document.text)


def label(clause: Clause) -> str:
    """Name a clause in a table."""
    return f"{clause.number} {clause.heading}"[:LABEL]


def _numbered(text: str) -> Iterator[Clause]:
    """Yield the clauses under numbered headings; text before them is clause 0."""
    number, heading, lines = 0, "Preamble", list[str]()
    for line in text.splitlines():
        start = _heading(line.strip(), number)
        if start is None:
            lines.append(line)
            continue
        yield from _clause(number, heading, lines)
        number, heading, rest = start
        lines = [rest] if rest else []
    if number:
        yield from _clause(number, heading, lines)


def _heading(line: str, last: int) -> tuple[int, str, str] | None:
    """Return number, title and the rest of the line, if the line starts a clause."""
    for pattern, proves in _FORMS:
        match = pattern.match(line)
        if match is None:
            continue
        parts = match.groupdict(default="")
        number = _value(parts["number"]) if "number" in parts else last + 1
        title = parts.get("title", "").strip("* ")
        if number == last + 1 and proves(title):
            return number, title or f"Clause {number}", parts.get("rest", "")
    return None


def _anything(_title: str) -> bool:
    return True


def _is_title(title: str) -> bool:
    """Tell a heading from an item of a list: its words are capitalised."""
    big = [word for word in re.findall(r"[A-Za-z]+", title) if word not in _SMALL]
    return bool(big) and all(word[0].isupper() for word in big)


_FORMS: Final[tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...]] = (
    (_NAMED, _anything),
    (_MARKED, _anything),
    (_PLAIN, _is_title),
    (_RUN_IN, _is_title),
    (_ANNEX, _anything),
)


def _clause(number: int, heading: str, lines: Iterable[str]) -> Iterator[Clause]:
    text = "\n".join(lines).strip()
    if number == 0:
        text = re.sub(r"^#\s.*$", "", text, flags=re.MULTILINE).strip()
        if len(text.split()) < PREAMBLE_WORDS:
            return
    yield Clause(number=number, heading=heading, text=text or heading)


def _sections(text: str) -> Iterator[Clause]:
    """Yield the sections of a Markdown text whose headings bear no numbers."""
    parts = re.split(r"^#{2,6}\s+(.+?)\s*$", text, flags=re.MULTILINE)
    for number, at in enumerate(range(1, len(parts), 2), start=1):
        body = parts[at + 1].strip()
        yield Clause(number=number, heading=parts[at], text=body or parts[at])


def _grouped(text: str) -> Iterator[Clause]:
    """Yield paragraphs in groups that a model reads in one go."""
    number, group = 0, list[str]()
    for paragraph in filter(None, map(str.strip, re.split(r"\n\s*\n", text))):
        if group and sum(map(len, group)) + len(paragraph) > GROUP:
            number += 1
            yield _group(number, group)
            group = []
        group.append(paragraph)
    if group:
        yield _group(number + 1, group)


def _group(number: int, paragraphs: list[str]) -> Clause:
    first = " ".join(paragraphs[0].split())
    heading = (
        first if len(first) <= LABEL else first[: LABEL - 1].rsplit(" ", 1)[0] + "…"
    )
    return Clause(number=number, heading=heading, text="\n\n".join(paragraphs))


def _value(number: str) -> int:
    """Return the value of a decimal or Roman number."""
    if number.isdigit():
        return int(number)
    values = [_ROMAN[letter] for letter in number.upper()]
    return sum(
        -value if following > value else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
