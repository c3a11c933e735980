"""What a message quotes of the data is found as by looking everywhere, and at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from urllib.parse import quote

import pytest
from pydantic import BaseModel

from piecework.errors.payload_redaction import (
    MASK,
    QUOTE_LENGTH,
    candidates,
    redact_quotes,
)

# ruff: noqa: RUF001 -- some of it is Greek


def everywhere(message: str, text: str) -> set[int]:
    """Return the places of a message that stand in a stretch of a long text."""
    bare = "".join(filter(str.isalnum, text)).lower()
    places = [i for i, character in enumerate(message) if character.isalnum()]
    found = set[int]()
    for at in range(len(places) - QUOTE_LENGTH + 1):
        window = places[at : at + QUOTE_LENGTH]
        if "".join(message[i].lower()[:1] for i in window) in bare:
            found.update(range(window[0], window[-1] + 1))
    return found


def marked(message: str, quoted: set[int]) -> str:
    return "".join("\0" if i in quoted else c for i, c in enumerate(message))


def squeezed(text: str) -> str:
    while "\0\0" in text:
        text = text.replace("\0\0", "\0")
    return text.replace("\0", MASK)


@pytest.mark.parametrize("letters", ["ab", "ab ", "abc1-_", "aä€1 ."])
def test_a_stretch_is_found_wherever_it_begins(letters: str) -> None:
    rng = Random(letters)
    found = 0
    for _ in range(300):
        text = "".join(rng.choices(letters, k=rng.randrange(40, 200)))
        at = rng.randrange(len(text))
        part = text[at : at + rng.randrange(60)]
        message = "".join(rng.choices(letters, k=20)) + part + "".join(letters)
        expected = everywhere(message, text)
        found += bool(expected)
        if sum(map(str.isalnum, text)) < QUOTE_LENGTH:
            continue

        assert squeezed(marked(message, expected)) == redact_quotes(message, text)
    assert 50 < found


def test_little_of_long_data_is_looked_at_more_than_once() -> None:
    rng = Random(1)
    text = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=100_000))
    said = text[1_000:1_030]
    halves = {said[at : at + 8] for at in range(len(said) - 7)}

    assert len(candidates(text, halves)) < 200
    assert MASK == redact_quotes(said, text)


NAMES = "Anna Meier\nBert Kahn\nCleo Lang\nDora Rau\tund Emil Bux\n"
SUM = "Herr Müller-Lüdenscheidt übergibt die Küche für 100 € (§ 5)"
HAN = "合同编号一二三四五六七八九十甲乙丙丁戊己庚辛壬癸"
PATH = "C:\\new\\tables\\reports\\under the name"


@pytest.mark.parametrize("text", [NAMES, SUM, HAN, PATH, SUM + "😀" + SUM])
@pytest.mark.parametrize(
    "spelt",
    [
        str,
        repr,
        ascii,
        json.dumps,
        quote,
        lambda text: str(text.encode()),
        lambda text: json.dumps(json.dumps(text)),
        lambda text: repr({"message": json.dumps(text)}),
    ],
)
def test_a_quotation_is_found_however_it_is_escaped(
    spelt: Callable[[str], str], text: str
) -> None:
    message = redact_quotes(f"cannot read {spelt(text)} at 7", text)

    assert message.startswith("cannot read ")
    assert message.endswith(" at 7")
    between = message.removeprefix("cannot read ").removesuffix(" at 7")
    assert MASK in between
    assert len(between.replace(MASK, "")) < 24


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("İSTİKLAL CADDESİ NUMARASI İKİ", "İSTİKLAL CADDESİ NUMARASI İKİ, TEL 1"),
        ("ο οδός Σταδίου και ο Αγιος", "Ο ΟΔΌΣ ΣΤΑΔΊΟΥ ΚΑΙ Ο ΑΓΙΟΣ ΕΔΩ"),
        ("Ο ΟΔΌΣ ΣΤΑΔΊΟΥ ΚΑΙ Ο ΑΓΙΟΣ", "ο οδός Σταδίου και ο Αγιος εδώ"),
    ],
)
def test_a_quotation_is_found_in_capitals_and_without(said: str, text: str) -> None:
    assert f"cannot read {MASK}." == redact_quotes(f"cannot read {said}.", text)


def test_what_only_looks_like_an_escape_is_left_alone() -> None:
    message = r"no \x zz, 100%, \u12 and %zz in C:\new"
    assert message == redact_quotes(message, SUM)


class Scan(BaseModel):
    name: str
    image: bytes = b"\xff"


@dataclass(slots=True)
class Bound:
    scan: Scan


CIRCLE: list[object] = [NAMES]
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize("given", [{"scans": [Bound(Scan(name=NAMES))]}, CIRCLE])
def test_an_argument_without_a_plain_form_hides_no_text(given: object) -> None:
    message = f"cannot read {NAMES} of {PATH}"
    redacted = redact_quotes(message, (given,), {"path": PATH})
    assert f"cannot read {MASK}\n of {MASK}" == redacted
