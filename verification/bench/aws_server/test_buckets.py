from __future__ import annotations

import pytest

from verification.bench.aws_server.client import Client


@pytest.fixture
def asking() -> Client:
    made = Client()
    made.object("PUT", "/bucket")
    made.object("PUT", "/bucket/a/one", b"0123456789", content_type="text/plain")
    made.object("PUT", "/bucket/a/t%20w&o", b"")
    return made


def test_an_object_is_read_as_a_whole_and_in_part(asking: Client) -> None:
    response = asking.object("GET", "/bucket/a/one")
    part = asking.object("GET", "/bucket/a/one", range="bytes=2-4")

    assert (200, b"0123456789") == (response.status, response.body)
    assert "Content-Type: text/plain" in response.head
    assert (206, b"234") == (part.status, part.body)
    assert "Content-Range: bytes 2-4/10" in part.head


def test_the_head_of_an_object_says_its_length_and_has_no_body(
    asking: Client,
) -> None:
    head = asking.object("HEAD", "/bucket/a/one")

    assert ("Content-Length: 10" in head.head, b"") == (True, head.body)


def test_keys_are_listed_page_by_page(asking: Client) -> None:
    first = asking.object("GET", "/bucket?list-type=2&prefix=a%2F&max-keys=1")
    assert b"<Key>a/one</Key>" in first.body
    assert b"<IsTruncated>true</IsTruncated>" in first.body

    after = "/bucket?list-type=2&prefix=a%2F&continuation-token=a%2Fone"
    assert b"<Key>a/t w&amp;o</Key>" in asking.object("GET", after).body


def test_a_deleted_object_is_gone(asking: Client) -> None:
    assert 204 == asking.object("DELETE", "/bucket/a/one").status

    gone = asking.object("GET", "/bucket/a/one")
    assert (404, True) == (gone.status, b"<Code>NoSuchKey</Code>" in gone.body)
    assert b"" == asking.object("HEAD", "/bucket/a/one").body
    assert b"NoSuchBucket" in asking.object("GET", "/other/key").body


def test_a_write_may_depend_on_what_is_there(asking: Client) -> None:
    second = asking.object("PUT", "/bucket/a/one", b"x", if_none_match="*")

    assert 412 == second.status


def test_requests_are_counted_by_what_they_cost(asking: Client) -> None:
    asking.object("GET", "/bucket?list-type=2")

    request_counts = {name: row[0] for name, row in asking.aws_server.counts.items()}
    assert {"s3.Put": 3, "s3.List": 1} == request_counts


def test_what_is_not_modelled_is_said(asking: Client) -> None:
    assert 501 == asking.object("GET", "/bucket?versions").status
