"""What the probes of S3 do not ask the stand-in: counts, heads, and its limits."""

from __future__ import annotations

import pytest

from verification.bench.aws_server.client import Client


@pytest.fixture
def asking() -> Client:
    made = Client()
    made.object("PUT", "/bucket")
    made.object("PUT", "/bucket/a/one", b"0123456789")
    made.object("PUT", "/bucket/a/t%20w&o", b"")
    return made


def test_the_head_of_an_object_has_no_body_though_there_is_none(asking: Client) -> None:
    head = asking.object("HEAD", "/bucket/a/one")

    assert ("Content-Length: 10" in head.head, b"") == (True, head.body)
    assert b"" == asking.object("HEAD", "/bucket/a/two").body


def test_keys_are_listed_as_xml_and_counted_by_what_they_cost(asking: Client) -> None:
    after = "/bucket?list-type=2&prefix=a%2F&continuation-token=a%2Fone"

    assert b"<Key>a/t w&amp;o</Key>" in asking.object("GET", after).body
    request_counts = {name: row[0] for name, row in asking.aws_server.counts.items()}
    assert {"s3.Put": 3, "s3.List": 1} == request_counts
