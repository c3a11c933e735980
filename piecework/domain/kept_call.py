"""The arguments and the answer of a call, whole: kept on purpose, for people.

A claim keeps what it has in one object of its job: JSON lines in gzip, which `zcat`
shows. The object goes with the job.
"""

from __future__ import annotations

import gzip
import inspect
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from pydantic_core import to_jsonable_python

from piecework.domain.records import unreadable_error
from piecework.domain.strict_json import MIB

#: Which calls are kept: those whose answer was refused or that ended their chunk; all;
#: or none.
Keeps: TypeAlias = Literal["failed", "all", "none"]
#: Characters of the arguments or of an answer; the beginning of longer ones is kept.
MOST_LETTERS: Final = 256 * 1024
#: Bytes of all that one claim keeps: a worker holds them until the claim ends.
CLAIM_BYTES: Final = 8 * MIB
#: Bytes of an object once it is unpacked: more than a claim writes.
UNPACKED: Final = 64 * MIB


@dataclass(slots=True)
class Refused:
    """An answer that was paid for and not used.

    Attributes:
        code: The code of the failure.
        places: Where it does not fit, and why.
    """

    answer: str
    code: str
    places: list[dict[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class KeptCall:
    """A call with its arguments.

    Attributes:
        arguments: The arguments as JSON.
        answer: The answer as JSON; empty: it has none, or its row has it.
        always: Whether it is kept whatever the end of its chunk.
    """

    key: str
    arguments: str
    answer: str = ""
    refused: list[Refused] = field(default_factory=list)
    code: str = ""
    message: str = ""
    always: bool = False

    @property
    def bytes(self) -> int:
        """Its characters: about its bytes."""
        refused = sum(len(each.answer) for each in self.refused)
        return len(self.arguments) + len(self.answer) + refused

    def document(self) -> dict[str, Any]:
        """Return it as a line of the object."""
        refused = [
            {"answer": beginning(r.answer), "code": r.code, "places": r.places}
            for r in self.refused
        ]
        facts = {
            "key": self.key,
            "arguments": beginning(self.arguments),
            "answer": beginning(self.answer),
            "refused": refused,
            "code": self.code,
            "message": self.message,
        }
        return {name: value for name, value in facts.items() if value}


def beginning(text: str) -> str:
    """Return a text, or of a long one the beginning."""
    if len(text) <= MOST_LETTERS:
        return text
    return f"{text[:MOST_LETTERS]}… ({len(text) - MOST_LETTERS:,} characters more)"


def arguments_text(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """Return the arguments of a call as JSON by their names.

    A secret type of pydantic stays masked. What has no JSON is shown as Python does.
    A function that stands for one of another process has the text as
    `__arguments_text__`.
    """
    if told := getattr(function, "__arguments_text__", ""):
        return str(told)
    try:
        bound = inspect.signature(function).bind_partial(*args, **kwargs)
        named: Any = dict(bound.arguments)
    except (TypeError, ValueError):
        named = {"args": list(args), **kwargs}
    plain = to_jsonable_python(named, fallback=repr, bytes_mode="base64")
    return json.dumps(plain, ensure_ascii=False)


def pack_kept(calls: Iterable[KeptCall]) -> bytes:
    """Return the object of some calls."""
    lines = (json.dumps(each.document(), ensure_ascii=False) for each in calls)
    return gzip.compress("\n".join(lines).encode(), mtime=0)


def read_kept(content: bytes) -> list[dict[str, Any]]:
    """Return the lines of an object.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    try:
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
        text = unpacking.decompress(content, UNPACKED).decode()
        found = [json.loads(line) for line in text.splitlines()]
    except (zlib.error, ValueError, RecursionError) as error:
        raise unreadable_error("The kept calls", f"cannot be read: {error}") from error
    return [each for each in found if isinstance(each, dict)]
