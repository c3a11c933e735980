"""The bytes of an answer: read once they are all there, however they come."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from piecework.aws.transport.http import HEAD_LIMIT, Answer, MalformedError, read

OK = b"HTTP/1.1 200 OK\r\n"
SIZED = OK + b"Content-Length: 4\r\nX-Amz-CRC32: 7\r\n\r\nbody"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nbod\r\n1\r\ny\r\n0\r\n\r\n"


@pytest.mark.parametrize("whole", [SIZED, CHUNKED])
def test_an_answer_is_read_when_its_last_byte_is_there(whole: bytes) -> None:
    assert [None] * len(whole) == [read(whole[:at]) for at in range(len(whole))]
    found = read(whole)
    assert found is not None
    assert (200, b"body", False) == (found.status_code, found.body, found.last)


def test_the_headers_are_named_in_small_letters_and_the_last_one_counts() -> None:
    found = read(OK + b"Date:  now \r\nA: 1\r\na: 2\r\ncontent-length: 0\r\n\r\n")

    assert found == Answer(
        200, {"date": "now", "a": "2", "content-length": "0"}, b"", last=False
    )


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        OK + b"Connection: Close\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_an_answer_says_that_it_is_the_last(head: bytes) -> None:
    found = read(head)

    assert found is not None
    assert found.last


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    begun = b"HTTP/1.1 503 Slow\r\n\r\nno"
    found = read(begun, ended=True)

    assert read(begun) is None
    assert found == Answer(503, {}, b"no", last=True)


def test_an_answer_that_has_no_body_needs_no_length() -> None:
    found = read(b"HTTP/1.1 204 No Content\r\n\r\n")

    assert found is not None
    assert found.body == b""


def test_an_answer_that_was_cut_off_is_none() -> None:
    assert read(SIZED[:-1], ended=True) is None
    assert read(CHUNKED[:-1], ended=True) is None
    assert read(b"", ended=True) is None


@pytest.mark.parametrize(
    "bad",
    [
        b"SMTP 220 hello\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        OK + b"nothing\r\n\r\n",
        OK + b": nameless\r\n\r\n",
        OK + b"folded: 1\r\n  2: 3\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: +1\r\n\r\n",
        OK + b"Content-Length: 1, 1\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nbody\r\n",
        SIZED + b"HTTP/1.1 200 OK",
        b"x" * (HEAD_LIMIT + 1),
    ],
)
def test_what_is_no_answer_or_more_than_one_is_refused(bad: bytes) -> None:
    with pytest.raises(MalformedError):
        read(bad)


@pytest.mark.parametrize(
    "size", [b"-6", b"+3", b"0x3", b"1_0", b" 3", b"", b"f" * 5000]
)
def test_a_chunk_has_a_size_in_digits(size: bytes) -> None:
    head = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    found: list[Any] = []

    def reading() -> None:
        try:
            found.append(read(head + size + b"\r\nbod\r\n0\r\n\r\n"))
        except Exception as error:  # noqa: BLE001
            found.append(error)

    thread = threading.Thread(target=reading, daemon=True)
    thread.start()
    thread.join(2)
    assert [MalformedError] == [type(each) for each in found]


def test_an_answer_behind_the_last_chunk_is_one_too_many() -> None:
    whole = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nbod\r\n0\r\n\r\n"
    with pytest.raises(MalformedError):
        read(whole + OK + b"Content-Length: 0\r\n\r\n")
    with pytest.raises(MalformedError):
        read(whole + OK)


def test_a_chunk_ends_where_it_says() -> None:
    with pytest.raises(MalformedError):
        read(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nbodyy0\r\n\r\n")


def test_a_length_that_nobody_can_read_is_none() -> None:
    with pytest.raises(MalformedError):
        read(OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n")
