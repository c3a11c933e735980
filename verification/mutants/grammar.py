"""DynamoDB's condition expressions, cut into the parts that can be dropped.

A dropped part still names its placeholders, because AWS refuses a request with unused
ones. That refusal would catch every mutant and prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

WORD = re.compile(r"\s+(AND|OR)\s+")
IN = re.compile(r"(\S+) IN \(([^()]*)\)")


def removals(condition: str) -> Iterator[tuple[str, str]]:
    """Yield each removed part, and the condition without it."""
    yield from _within(condition, 0, condition)


def _within(text: str, at: int, whole: str) -> Iterator[tuple[str, str]]:
    """Drop each part of the piece of the condition that begins at `at`."""
    word, parts = split(text)
    for offset, part in parts:
        begin, end = at + offset, at + offset + len(part)
        neutral = f"({part} AND NOT ({part}))" if word == "OR" else always_true(part)
        yield part, whole[:begin] + neutral + whole[end:]
        inner = part[1:-1]
        if part.startswith("(") and split(inner)[0]:
            yield from _within(inner, begin + 1, whole)
        for one, without in members(part):
            yield f"{one} of {part}", whole[:begin] + without + whole[end:]


def split(text: str) -> tuple[str, list[tuple[int, str]]]:
    """Cut at the outermost OR, else at the outermost AND; parts with their offsets."""
    for word in ("OR", "AND"):
        parts, begin = [], 0
        for found in WORD.finditer(text):
            before = text[: found.start()]
            if found[1] == word and before.count("(") == before.count(")"):
                parts.append((begin, text[begin : found.start()]))
                begin = found.end()
        if parts:
            return word, [*parts, (begin, text[begin:])]
    return "", [(0, text)]


def always_true(part: str) -> str:
    """Return a condition that always holds, with the same names."""
    return f"({part} OR NOT ({part}))"


def members(part: str) -> Iterator[tuple[str, str]]:
    """Drop each member of a list, were it never equal."""
    found = IN.fullmatch(part)
    if found is None:
        return
    name, listed = found[1], found[2].split(", ")
    for one in listed:
        others = ", ".join(x for x in listed if x != one)
        never = f"({name} = {one} AND NOT ({name} = {one}))"
        yield one, f"({name} IN ({others}) OR {never})"
