"""Words of a text with their stems and places, so that a match can be shown."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Final

_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9'’.]*[A-Za-z0-9]|[A-Za-z0-9]")
_SENTENCE_END: Final = re.compile(r"(?<=[a-z0-9)\"”][.;])\s+(?=[A-Z0-9(\"“])|\n{2,}")
_SUFFIXES: Final = ("'s", "ities", "ity", "ions", "ion", "ying")
_ENDINGS: Final = ("ing", "ies", "ied", "ed", "es", "s", "y", "e")
_SHORTEST_STEM: Final = 4

_STOP_WORDS: Final = """
    a an and any are as at be been but by each for from has have if in into is it its
    may must not of on or other party parties shall such than that the their then
    there these they this to under upon was were which who will with agreement
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True, slots=True)
class Word:
    """One word: its stem and its position."""

    stem: str
    start: int
    end: int


@functools.lru_cache(maxsize=64)  # twelve scorers read each clause
def words(text: str) -> tuple[Word, ...]:
    """Return the words of a text; a hyphen separates two words."""
    return tuple(
        Word(stem(found.group()), found.start(), found.end())
        for found in _WORD.finditer(text)
    )


def stem(word: str) -> str:
    """Cut the endings of English, so that `terminated` meets `termination`.

    This is a light stemmer in the manner of Harman's S stemmer (1991). Legal terms need
    few endings. The stems stay readable, so a person can check them.
    """
    word = word.lower().replace("’", "'")
    for endings in (_SUFFIXES, _ENDINGS):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
                word = word.removesuffix(ending)
                break
    return word


@functools.lru_cache(maxsize=64)
def content_stems(text: str) -> tuple[str, ...]:
    """Return the stems of the words that carry meaning."""
    return tuple(
        word.stem
        for word in words(text)
        if text[word.start : word.end].lower() not in STOP_WORDS
    )


def sentences(text: str) -> list[tuple[int, int]]:
    """Return where each sentence starts and ends; a semicolon ends one too."""
    bounds, start = [], 0
    for gap in _SENTENCE_END.finditer(text):
        bounds.append((start, gap.start()))
        start = gap.end()
    return [*bounds, (start, len(text))]
