from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from piecework.aws.queue import BODY_LIMIT, Message, read
from piecework.domain import keys
from piecework.domain.refs import ChunkRef

NAMES = st.from_regex(r"\A[A-Za-z0-9_-]{1,64}\Z")
MESSAGES = st.builds(
    Message,
    tenant=NAMES,
    job=NAMES,
    chunk=st.integers(keys.JOIN_CHUNK, keys.MAX_CHUNK_NUMBER),
    gen=st.integers(1, keys.MAX_GENERATION),
)
GOOD: dict[str, Any] = {"v": 1, "tenant": "acme", "job": "j", "chunk": 3, "gen": 1}


def delivered(body: str) -> Message | None:
    return read({"Body": body, "ReceiptHandle": "r", "MessageId": "m"}).message


@given(MESSAGES)
def test_a_message_reads_back_as_it_was_sent(message: Message) -> None:
    assert message == delivered(message.model_dump_json())


@given(MESSAGES)
def test_a_message_is_small(message: Message) -> None:
    assert len(message.model_dump_json()) < 256


def test_a_message_says_whose_turn_it_is() -> None:
    ref = ChunkRef("acme", "j", 3)
    message = Message.about(ref, 2)
    assert (message.ref, message.gen, message.v) == (ref, 2, 1)


@given(st.text())
def test_any_text_is_read_and_not_believed(body: str) -> None:
    assert delivered(body) is None


@given(
    st.dictionaries(
        st.sampled_from(["tenant", "job", "chunk", "gen", "more"]),
        st.none() | st.booleans() | st.floats() | st.text() | st.lists(st.integers()),
        min_size=1,
    )
)
def test_a_field_of_a_wrong_type_is_not_believed(wrong: dict[str, Any]) -> None:
    for name in ("tenant", "job"):
        if isinstance(wrong.get(name), str):
            wrong[name] += "#"
    assert delivered(json.dumps(GOOD | wrong)) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"v": 2},
        {"v": "1"},
        {"tenant": ""},
        {"tenant": "a#b"},
        {"tenant": "x" * 65},
        {"job": "a\n"},
        {"job": "../a"},
        {"chunk": -2},
        {"chunk": "3"},
        {"chunk": 3.0},
        {"chunk": keys.MAX_CHUNK_NUMBER + 1},
        {"chunk": 10**400},
        {"gen": 0},
        {"gen": keys.MAX_GENERATION + 1},
        {"gen": True},
        {"more": 1},
    ],
)
def test_a_forged_message_is_not_believed(wrong: dict[str, Any]) -> None:
    assert delivered(json.dumps(GOOD | wrong)) is None


@pytest.mark.parametrize("name", ["tenant", "job", "chunk", "gen"])
def test_a_message_without_a_field_is_not_believed(name: str) -> None:
    assert delivered(json.dumps({k: v for k, v in GOOD.items() if k != name})) is None


def test_a_body_is_parsed_up_to_a_size() -> None:
    body = json.dumps(GOOD)
    padding = " " * (BODY_LIMIT - len(body))
    assert delivered(body + padding) is not None
    assert delivered(body + padding + " ") is None


def test_a_message_without_a_chunk_is_refused() -> None:
    with pytest.raises(ValidationError):
        Message.about(ChunkRef("a#b", "j", 0), 1)


def test_a_delivery_keeps_what_is_needed_to_set_it_aside() -> None:
    found = {
        "Body": "not ours",
        "ReceiptHandle": "r",
        "MessageId": "m",
        "Attributes": {"ApproximateReceiveCount": "4"},
    }
    delivery = read(found, "slow")
    assert (delivery.message, delivery.body) == (None, "not ours")
    assert delivery.receipt == ("r", "slow")
    assert (delivery.message_id, delivery.received) == ("m", 4)


@pytest.mark.parametrize(
    ("version", "newer"),
    [
        (2, True),
        (1_001, True),
        (1_002, False),
        (10**30, False),
        (0, False),
        (-1, False),
        ("2", False),
        (True, False),
        (2.0, False),
        ([2], False),
        ({}, False),
        (None, False),
    ],
)
def test_only_a_version_that_may_exist_waits_for_a_newer_worker(
    version: object,
    newer: bool,  # noqa: FBT001
) -> None:
    body = json.dumps(GOOD | {"v": version})
    found = read({"Body": body, "ReceiptHandle": "r", "MessageId": "m"})
    assert (None, newer) == (found.message, found.newer)
