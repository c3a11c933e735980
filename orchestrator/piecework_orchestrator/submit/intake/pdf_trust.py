"""Decide whether the text of a PDF's page can be trusted. Pure, without a dictionary.

A PDF stores shapes. The font says which characters they are, and may say nothing, or
lie; the viewer shows the same page. Three signs tell, in any language of three scripts:

- Characters without a meaning: unmapped, for private use, or controls.
- Words without spaces: letters in words of more than 25.
- Other letters: a quarter to 60 % of the letters of a text are vowels. Letters that a
  font has shifted or mixed have another share. Read 3,427 pages in 20 languages.
  Decision 0043 has the measurement.
"""

# ruff: noqa: RUF001 -- letters of other scripts are looked for
from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

#: Vowels of the Latin, Cyrillic and Greek scripts, without their accents.
VOWELS: Final = frozenset("aeiouyıæøœаеёиоуыэюяіїєαεηιουω")
#: The first letter of another script: those are not judged by their vowels.
OTHER_SCRIPTS: Final = "\u0530"
#: Of all letters. Fewer or more: they are not those that a reader sees.
LEAST_VOWELS, MOST_VOWELS = 0.25, 0.6
#: Letters of a page from which shares of them mean something.
ENOUGH_LETTERS = 200
#: Letters of a word. Longer ones are rare, in German and Finnish, too.
LONG_WORD = 25
#: Of the letters in long words; of the characters without a meaning.
MOST_LONG, MOST_UNMAPPED = 0.25, 0.05
#: Characters of a page from which the share of unmapped ones means something.
ENOUGH_CHARACTERS = 20

WITHOUT_MEANING: Final = frozenset({"Cc", "Cn", "Co"})
#: What some programs write for a shape without a character.
CID: Final = re.compile(r"\(cid:\d+\)")
WORD: Final = re.compile(r"[^\W\d_]+")

UNMAPPED = "characters without a meaning"
NO_SPACES = "words without spaces"
OTHER_LETTERS = "letters of no language"


def doubt(text: str) -> str:
    """Return why the text of a page cannot be trusted; empty: nothing is known."""
    text = CID.sub("\ufffd", text)
    shown = [each for each in text if not each.isspace()]
    unmapped = sum(map(is_unmapped, shown))
    if len(shown) >= ENOUGH_CHARACTERS and unmapped > MOST_UNMAPPED * len(shown):
        return UNMAPPED
    words = [each for each in WORD.findall(text) if is_judged(each)]
    letters = sum(map(len, words))
    if letters < ENOUGH_LETTERS:
        return ""
    if sum(len(each) for each in words if len(each) > LONG_WORD) > MOST_LONG * letters:
        return NO_SPACES
    vowels = count_vowels(words)
    if not LEAST_VOWELS * letters <= vowels <= MOST_VOWELS * letters:
        return OTHER_LETTERS
    return ""


def is_unmapped(character: str) -> bool:
    """Return whether a character has no meaning for a reader."""
    return character == "\ufffd" or unicodedata.category(character) in WITHOUT_MEANING


def is_judged(word: str) -> bool:
    """Return whether the vowels of a word's script are known."""
    return max(unicodedata.normalize("NFC", word)) < OTHER_SCRIPTS


def count_vowels(words: Iterable[str]) -> int:
    """Return how many letters are vowels, with and without accents."""
    plain = unicodedata.normalize("NFD", "".join(words).lower())
    return sum(each in VOWELS for each in plain)
