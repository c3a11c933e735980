"""Redact the chunk's own data from the message of an error.

Libraries quote the data that they fail on: a parser its input, a provider the prompt.
The payload, the arguments and the answers of a chunk are known where its errors are
classified. So any longer part of them is found in the message, however it is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from pydantic_core import to_jsonable_python

from piecework.errors import ErrorEnvelope

MASK: Final = "[quoted]"
#: Letters and digits in a row that count as a quotation. A shorter text of the data is
#: only searched as a whole, and not at all below the second length.
QUOTE_LENGTH: Final = 16
MIN_LENGTH: Final = 8
#: Each quotation contains one part of the data that starts at a multiple of this.
HALF: Final = QUOTE_LENGTH // 2
#: Characters of data that are searched: a failure must not block the event loop.
MAX_SEARCHED: Final = 1 << 20
_NOT_ALNUM: Final = re.compile(r"[\W_]+")
#: The escapes of JSON, Python and URLs; text is often escaped twice.
_ESCAPED: Final = re.compile(
    r"(?<!\\)(?:"
    r"(?P<units>(?:\\++u[0-9a-fA-F]{4})+)"
    r"|(?P<bytes>(?:\\++x[0-9a-fA-F]{2})+|(?:%[0-9a-fA-F]{2})+)"
    r"|\\++[nrt])"
)


def redact_payload(failure: ErrorEnvelope, *data: Any) -> ErrorEnvelope:
    """Return the error with a message that does not quote the data."""
    return failure.model_copy(update={"message": redact_quotes(failure.message, *data)})


def redact_quotes(message: str, *data: Any) -> str:
    """Return the message with its quotations of the data masked."""
    readings = [Reading.of([(each, i, i) for i, each in enumerate(message)])]
    if _ESCAPED.search(message):
        readings.append(Reading.of(unescape(message)))
    quoted = set[int]()
    for text in texts(data):
        bare = fold(text)
        for reading in readings:
            for first, last in reading.quotes(bare, text):
                quoted.update(range(first, last + 1))
    return mask(message, quoted)


@dataclass(frozen=True, slots=True)
class Reading:
    """The letters and digits of a message.

    Attributes:
        bare: The letters and digits, in lower case.
        places: The first and last index in the message, for each of them.
        halves: All parts of `bare` that are half as long as a quotation.
    """

    bare: str
    places: Sequence[tuple[int, int]]
    halves: Collection[str]

    @classmethod
    def of(cls, characters: Iterable[tuple[str, int, int]]) -> Reading:
        """Make a reading of characters, each with its first and last index."""
        kept = [each for each in characters if each[0].isalnum()]
        bare = one_sigma("".join(character.lower()[:1] for character, _, _ in kept))
        halves = {bare[at : at + HALF] for at in range(len(bare) - HALF + 1)}
        return cls(bare, [(first, last) for _, first, last in kept], halves)

    def quotes(self, bare: str, text: str) -> Iterator[tuple[int, int]]:
        """Yield the first and last index of each quotation of a text in the message.

        `bare`: the folded text.
        """
        if len(bare) >= QUOTE_LENGTH:
            found = find_parts(self.bare, candidates(bare, self.halves))
        else:
            found = find_whole(self.bare, bare, text)
        for first, last in found:
            yield self.places[first][0], self.places[last][1]


def unescape(message: str) -> Iterator[tuple[str, int, int]]:
    """Yield the unescaped characters with their first and last index in the message."""
    at = 0
    for escape in _ESCAPED.finditer(message):
        yield from ((message[i], i, i) for i in range(at, escape.start()))
        at = escape.end()
        yield from ((each, escape.start(), at - 1) for each in decode_escape(escape))
    yield from ((message[i], i, i) for i in range(at, len(message)))


def decode_escape(escape: re.Match[str]) -> str:
    """Return the characters of an escape; nothing for the end of a line."""
    if escape.lastgroup is None:
        return ""
    digits = bytes.fromhex(re.sub(r"\\+[ux]|%", "", escape[0]))
    if escape.lastgroup == "units":
        return digits.decode("utf-16-be", "replace")
    try:
        return digits.decode()
    except ValueError:
        return digits.decode("latin-1")


def fold(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return one_sigma(_NOT_ALNUM.sub("", text.lower()))


def one_sigma(text: str) -> str:
    """Replace final sigmas: `lower()` picks a sigma by the characters around it."""
    return text.replace(
        "\N{GREEK SMALL LETTER FINAL SIGMA}", "\N{GREEK SMALL LETTER SIGMA}"
    )


def candidates(bare: str, halves: Collection[str]) -> str:
    """Return the parts of a long text that may contain a quotation.

    To search each part of a message in a text of the largest size takes seconds.
    """
    found = (at for at in range(0, len(bare), HALF) if bare[at : at + HALF] in halves)
    near = dict.fromkeys(bare[max(0, at - HALF) : at + QUOTE_LENGTH] for at in found)
    return "\n".join(near)


def find_parts(message: str, near: str) -> Iterator[tuple[int, int]]:
    """Yield the first and last index of each part of the message that is in `near`."""
    if not near:
        return
    for at in range(len(message) - QUOTE_LENGTH + 1):
        if message[at : at + QUOTE_LENGTH] in near:
            yield at, at + QUOTE_LENGTH - 1


def find_whole(message: str, bare: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the first and last index of each occurrence of a whole short text."""
    # A plain word is not a secret, and half of all messages contain it.
    if len(bare) < MIN_LENGTH or text.strip().isalpha():
        return
    at = message.find(bare)
    while at >= 0:
        yield at, at + len(bare) - 1
        at = message.find(bare, at + 1)


def mask(message: str, quoted: set[int]) -> str:
    """Return the message with one mask for each run of quoted indexes."""
    parts, inside = [], False
    for i, character in enumerate(message):
        if i in quoted:
            parts += [] if inside else [MASK]
        else:
            parts.append(character)
        inside = i in quoted
    return "".join(parts)


def texts(data: Any) -> Iterator[str]:
    """Yield the texts in data of any type, up to a size in all."""
    left = MAX_SEARCHED
    for text in leaves(plain_parts(data)):
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


def plain_parts(data: Any) -> Iterator[Any]:
    """Yield the data as plain data; of an object without a plain form, its parts.

    A list within itself has none, nor has a model with bytes that are not UTF-8.
    """
    waiting, opened = [data], dict[int, Any]()  # what is kept here keeps its id
    while waiting:
        found = waiting.pop()
        try:
            yield to_jsonable_python(
                found, fallback=lambda _: None, bytes_mode="base64"
            )
        except Exception:  # noqa: BLE001 -- a property of a model may raise anything
            if id(found) not in opened:
                opened[id(found)] = found
                waiting += parts(found)


def parts(found: Any) -> Iterable[Any]:
    """Return what an object consists of; a model yields its fields with their names."""
    if isinstance(found, Mapping):
        return [*found.keys(), *found.values()]
    if is_dataclass(found):
        return [getattr(found, each.name, None) for each in fields(found)]
    return found if isinstance(found, Iterable) else ()


def leaves(plain: Any) -> Iterator[str]:
    """Yield the texts in plain data, keys of mappings included."""
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
