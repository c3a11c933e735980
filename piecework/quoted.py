"""Take out of an error's message what it quotes of the chunk's own data.

Libraries quote what they choke on: a parser its input, a provider the prompt. What a
chunk was given, asked and answered is known where its errors are made, so that any
longer stretch of it is found again, whatever it looks like and however it is spelt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
#: How JSON, Python and URLs spell what they do not say as it is; often, twice over.
_ESCAPED: Final = re.compile(
    r"(?<!\\)(?:"
    r"(?P<units>(?:\\++u[0-9a-fA-F]{4})+)"
    r"|(?P<bytes>(?:\\++x[0-9a-fA-F]{2})+|(?:%[0-9a-fA-F]{2})+)"
    r"|\\++[nrt])"
)


def without(failure: ErrorEnvelope, *given: Any) -> ErrorEnvelope:
    """Return an error whose message quotes nothing of the data."""
    return failure.model_copy(update={"message": unquoted(failure.message, *given)})


def unquoted(message: str, *given: Any) -> str:
    """Return a message without what it quotes of the data."""
    readings = [Reading.of([(each, i, i) for i, each in enumerate(message)])]
    if _ESCAPED.search(message):
        readings.append(Reading.of(unescaped(message)))
    quoted = set[int]()
    for text in texts(given):
        bare = folded(text)
        for reading in readings:
            for first, last in reading.quotes(bare, text):
                quoted.update(range(first, last + 1))
    return masked(message, quoted)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a message says, in letters and digits.

    Attributes:
        places: Of each, from where to where in the message it stands.
        halves: All parts of it that are half as long as a quotation.
    """

    said: str
    places: Sequence[tuple[int, int]]
    halves: Collection[str]

    @classmethod
    def of(cls, spelt: Iterable[tuple[str, int, int]]) -> Reading:
        """Make one of characters, each with its first and last place."""
        kept = [each for each in spelt if each[0].isalnum()]
        said = one_sigma("".join(character.lower()[:1] for character, _, _ in kept))
        halves = {said[at : at + HALF] for at in range(len(said) - HALF + 1)}
        return cls(said, [(first, last) for _, first, last in kept], halves)

    def quotes(self, bare: str, text: str) -> Iterator[tuple[int, int]]:
        """Yield where it quotes a text: from where to where in the message."""
        if len(bare) >= STRETCH:
            found = stretches(self.said, worth_a_look(bare, self.halves))
        else:
            found = wholes(self.said, bare, text)
        for first, last in found:
            yield self.places[first][0], self.places[last][1]


def unescaped(message: str) -> Iterator[tuple[str, int, int]]:
    """Yield what the characters of a message mean; an escape is quoted as a whole."""
    at = 0
    for escape in _ESCAPED.finditer(message):
        yield from ((message[i], i, i) for i in range(at, escape.start()))
        at = escape.end()
        yield from ((each, escape.start(), at - 1) for each in meant(escape))
    yield from ((message[i], i, i) for i in range(at, len(message)))


def meant(escape: re.Match[str]) -> str:
    """Return what an escape stands for; of the end of a line, nothing."""
    if escape.lastgroup is None:
        return ""
    digits = bytes.fromhex(re.sub(r"\\+[ux]|%", "", escape[0]))
    if escape.lastgroup == "units":
        return digits.decode("utf-16-be", "replace")
    try:
        return digits.decode()
    except ValueError:
        return digits.decode("latin-1")


def folded(text: str) -> str:
    """Return the letters and digits of a text, all of them small."""
    return one_sigma(_UNSAID.sub("", text.lower()))


def one_sigma(text: str) -> str:
    """Return a text with one small sigma: which it is depends on what follows."""
    return text.replace(
        "\N{GREEK SMALL LETTER FINAL SIGMA}", "\N{GREEK SMALL LETTER SIGMA}"
    )


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
