"""Take out of an error's message what it quotes of the chunk's own data.

Libraries quote what they choke on: a parser its input, a provider the prompt. What a
chunk was given, asked and answered is known where its errors are made, so that any
longer stretch of it is found again, whatever it looks like and however it is spelt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic_core import to_jsonable_python

from piecework.errors import ErrorEnvelope

MASK: Final = "[quoted]"
#: Letters and digits in a row that are a quotation; a shorter text counts as a whole.
STRETCH: Final = 16
SHORTEST: Final = 8
#: Each stretch of data holds one of its parts that begin at a multiple of this.
HALF: Final = STRETCH // 2
#: Characters of data that are looked through: a failure must not hold the loop up.
MOST: Final = 1 << 20
_UNSAID: Final = re.compile(r"[\W_]+")


def without(failure: ErrorEnvelope, *given: Any) -> ErrorEnvelope:
    """Return an error whose message quotes nothing of the data."""
    return failure.model_copy(update={"message": unquoted(failure.message, *given)})


def unquoted(message: str, *given: Any) -> str:
    """Return a message without what it quotes of the data."""
    places = [i for i, character in enumerate(message) if character.isalnum()]
    said = "".join(message[i].lower()[:1] for i in places)
    halves = {said[at : at + HALF] for at in range(len(said) - HALF + 1)}
    quoted = set[int]()
    for text in texts(given):
        bare = _UNSAID.sub("", text).lower()
        if len(bare) >= STRETCH:
            found = stretches(said, worth_a_look(bare, halves))
        else:
            found = wholes(said, bare, text)
        for first, last in found:
            quoted.update(range(places[first], places[last] + 1))
    return masked(message, quoted)


def worth_a_look(bare: str, halves: Collection[str]) -> str:
    """Return the parts of a long text that may have stretches of the message in them.

    A message is short, and to look for each of its stretches in a text as long as data
    may be takes seconds.
    """
    found = (at for at in range(0, len(bare), HALF) if bare[at : at + HALF] in halves)
    near = dict.fromkeys(bare[max(0, at - HALF) : at + STRETCH] for at in found)
    return "\n".join(near)


def stretches(said: str, near: str) -> Iterator[tuple[int, int]]:
    """Yield where a message speaks as a text does: the first and the last place."""
    if not near:
        return
    for at in range(len(said) - STRETCH + 1):
        if said[at : at + STRETCH] in near:
            yield at, at + STRETCH - 1


def wholes(said: str, bare: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a message holds all of a short text."""
    # A plain word is nobody's secret, and half of all messages.
    if len(bare) < SHORTEST or text.strip().isalpha():
        return
    at = said.find(bare)
    while at >= 0:
        yield at, at + len(bare) - 1
        at = said.find(bare, at + 1)


def masked(message: str, quoted: set[int]) -> str:
    """Return a message with one mark for each run of places."""
    parts, inside = [], False
    for i, character in enumerate(message):
        if i in quoted:
            parts += [] if inside else [MASK]
        else:
            parts.append(character)
        inside = i in quoted
    return "".join(parts)


def texts(given: Any) -> Iterator[str]:
    """Yield the texts within data of any kind, up to a size in all."""
    left = MOST
    try:
        plain = to_jsonable_python(given, fallback=lambda _: None, bytes_mode="base64")
    except ValueError:  # such as a list within itself
        return
    for text in leaves(plain):
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


def leaves(plain: Any) -> Iterator[str]:
    """Yield the texts within plain data, the names in it included."""
    waiting = [iter([plain])]
    while waiting:
        for found in waiting[-1]:
            if isinstance(found, str):
                yield found
            elif isinstance(found, Mapping):
                waiting.append(iter([*found.keys(), *found.values()]))
                break
            elif isinstance(found, Iterable):
                waiting.append(iter(found))
                break
        else:
            waiting.pop()
