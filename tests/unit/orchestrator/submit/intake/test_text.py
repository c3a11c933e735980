from __future__ import annotations

import codecs

import pytest

from piecework.errors import UsageError
from piecework_orchestrator.submit.intake import documents
from piecework_orchestrator.submit.intake.limits import IntakeLimits


def read(data: bytes) -> str:
    return documents.read(data, "a.txt", IntakeLimits())


@pytest.mark.parametrize(
    "data",
    [
        "Frist: § 5 “sofort”".encode(),
        codecs.BOM_UTF8 + "Frist: § 5 “sofort”".encode(),
        codecs.BOM_UTF16_LE + "Frist: § 5 “sofort”".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "Frist: § 5 “sofort”".encode("utf-16-be"),
        codecs.BOM_UTF32_LE + "Frist: § 5 “sofort”".encode("utf-32-le"),
    ],
)
def test_text_is_decoded_by_its_byte_order_mark(data: bytes) -> None:
    assert read(data) == "Frist: § 5 “sofort”"


def test_all_line_endings_become_line_feeds() -> None:
    assert read(b"a\r\nb\rc\nd") == "a\nb\nc\nd"


@pytest.mark.parametrize(
    ("data", "offset", "encoding"),
    [
        (b"caf\xe9 noir", 3, "UTF-8"),
        (codecs.BOM_UTF8 + b"caf\xe9 noir", 6, "UTF-8"),
        (codecs.BOM_UTF16_LE + "ab".encode("utf-16-le") + b"\x00\xdc", 6, "UTF-16-LE"),
        ("no mark".encode("utf-16-le"), 1, "UTF-8"),
        (b"\xc3\xa9\x00", 2, "UTF-8"),
    ],
    ids=["latin-1", "after a mark", "utf-16", "utf-16 without a mark", "binary"],
)
def test_invalid_text_is_refused_with_the_offset_of_the_byte(
    data: bytes, offset: int, encoding: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read(data)
    assert refused.value.code == "input.file.unreadable"
    assert offset == refused.value.facts["offset"]
    assert encoding in refused.value.message
