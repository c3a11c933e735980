"""An HTTP answer is parsed when its last byte has arrived, and only if it is sound."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from piecework.aws.transport.answer import (
    HEAD_LIMIT,
    Answer,
    MalformedError,
    parse_answer,
)

OK = b"HTTP/1.1 200 OK\r\n"
SIZED = OK + b"Content-Length: 4\r\nX-Amz-CRC32: 7\r\n\r\nbody"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nbod\r\n1\r\ny\r\n0\r\n\r\n"


@pytest.mark.parametrize("whole", [SIZED, CHUNKED])
def test_an_answer_is_complete_when_its_last_byte_has_arrived(whole: bytes) -> None:
    assert [None] * len(whole) == [parse_answer(whole[:at]) for at in range(len(whole))]
    found = parse_answer(whole)
    assert found is not None
    assert (200, b"body", False) == (found.status_code, found.body, found.closes)


def test_header_names_are_lower_case_and_the_last_value_counts() -> None:
    found = parse_answer(
        OK + b"Date:  now \r\nA: 1\r\na: 2\r\ncontent-length: 0\r\n\r\n"
    )

    assert found == Answer(
        200, {"date": "now", "a": "2", "content-length": "0"}, b"", closes=False
    )


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        OK + b"Connection: Close\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_an_answer_may_close_the_connection(head: bytes) -> None:
    found = parse_answer(head)

    assert found is not None
    assert found.closes


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    begun = b"HTTP/1.1 503 Slow\r\n\r\nno"
    found = parse_answer(begun, ended=True)

    assert parse_answer(begun) is None
    assert parse_answer(b"x" * HEAD_LIMIT) is None
    assert found == Answer(503, {}, b"no", closes=True)


def test_an_answer_without_a_body_needs_no_length() -> None:
    found = parse_answer(b"HTTP/1.1 204 No Content\r\n\r\n")

    assert found is not None
    assert found.body == b""


def test_an_answer_that_was_cut_off_stays_incomplete() -> None:
    assert parse_answer(SIZED[:-1], ended=True) is None
    assert parse_answer(CHUNKED[:-1], ended=True) is None
    assert parse_answer(b"", ended=True) is None


@pytest.mark.attack("answers")
@pytest.mark.parametrize(
    "bad",
    [
        b"SMTP 220 hello\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 ²00 OK\r\nContent-Length: 0\r\n\r\n".encode(),
        b"HTTP/1.1 99\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
        OK + b"nothing\r\n\r\n",
        OK + b": nameless\r\n\r\n",
        OK + b"folded: 1\r\n  2: 3\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: +1\r\n\r\n",
        OK + b"Content-Length: 1, 1\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nbody\r\n",
        SIZED + b"HTTP/1.1 200 OK",
        OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nbodyXX",
        b"x" * (HEAD_LIMIT + 1),
    ],
)
def test_bytes_that_are_not_one_answer_are_refused(bad: bytes) -> None:
    with pytest.raises(MalformedError):
        parse_answer(bad)


@pytest.mark.parametrize(
    "size", [b"-6", b"+3", b"0x3", b"1_0", b" 3", b"", b"f" * 5000]
)
def test_a_chunk_needs_a_size_in_hexadecimal_digits(size: bytes) -> None:
    head = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    found: list[Any] = []

    def reading() -> None:
        try:
            found.append(parse_answer(head + size + b"\r\nbod\r\n0\r\n\r\n"))
        except Exception as error:  # noqa: BLE001
            found.append(error)

    thread = threading.Thread(target=reading, daemon=True)
    thread.start()
    thread.join(2)
    assert [MalformedError] == [type(each) for each in found]


@pytest.mark.attack("answers")
def test_bytes_after_the_last_chunk_are_refused() -> None:
    whole = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nbod\r\n0\r\n\r\n"
    with pytest.raises(MalformedError):
        parse_answer(whole + OK + b"Content-Length: 0\r\n\r\n")
    with pytest.raises(MalformedError):
        parse_answer(whole + OK)


@pytest.mark.attack("answers")
def test_a_chunk_that_is_longer_than_its_size_is_refused() -> None:
    with pytest.raises(MalformedError):
        parse_answer(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nbodyy0\r\n\r\n")


@pytest.mark.attack("answers")
def test_a_length_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(MalformedError):
        parse_answer(OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n")


@pytest.mark.attack("answers")
@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
    ],
)
def test_a_body_with_two_lengths_is_refused(headers: bytes) -> None:
    with pytest.raises(MalformedError):
        parse_answer(OK + headers + b"\r\n0\r\n\r\n")


def test_a_length_may_be_repeated() -> None:
    found = parse_answer(OK + b"Content-Length: 0\r\n" * 2 + b"\r\n")

    assert found is not None
    assert found.body == b""


CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.attack("answers")
@pytest.mark.parametrize(
    "begun",
    [
        OK + b"Content-Length: 101\r\n\r\n",
        CHUNKS + b"65\r\n",
        CHUNKS + b"32\r\n" + b"x" * 50 + b"\r\n32\r\n",
        CHUNKS + b"1;" + b"x" * 100,
        OK + b"\r\n" + b"x" * 101,
    ],
    ids=["length", "chunk", "chunks", "extension", "without a length"],
)
def test_a_body_above_the_limit_is_refused_before_it_has_arrived(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework.aws.transport.answer.BODY_LIMIT", 100)
    with pytest.raises(MalformedError, match="100 bytes"):
        parse_answer(begun)


@pytest.mark.parametrize(
    "whole",
    [
        OK + b"Content-Length: 100\r\n\r\n" + b"x" * 100,
        CHUNKS + b"32\r\n" + b"x" * 50 + b"\r\n0\r\n\r\n",
    ],
)
def test_a_body_within_the_limit_is_accepted(
    whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework.aws.transport.answer.BODY_LIMIT", 100)
    assert parse_answer(whole) is not None
