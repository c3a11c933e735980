"""Too large to be held: refused before. A true worker's memory: `make security`."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, Self

import pytest

from piecework.aws.objects import OBJECT_LIMIT, Objects
from piecework.domain import values
from piecework.domain.chunk_input import LABEL_LENGTH, clean_label
from piecework.errors import ErrorEnvelope, PermanentError
from piecework.errors.codes import ErrorClass
from piecework.errors.envelope import MESSAGE_LIMIT

GIGABYTE = 1 << 30


class Endless:
    """A body that no worker may read."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def read(self, amt: int = -1) -> bytes:
        if amt < 0:
            raise AssertionError("it was read whole")
        return b"x" * amt


@pytest.mark.attack("archives")
async def test_an_object_of_a_gigabyte_is_refused_before_it_is_read() -> None:
    async def get_object(**_: Any) -> Any:
        return {"Body": Endless(), "ContentLength": GIGABYTE}

    client: Any = SimpleNamespace(get_object=get_object)
    for most in ({}, {"length": 10}):
        with pytest.raises(PermanentError) as caught:
            await Objects(client, "bucket").get("key", **most)
        assert "runtime.object.too_large" == caught.value.code
    assert OBJECT_LIMIT < GIGABYTE


@pytest.mark.attack("archives")
async def test_a_manifest_without_an_end_is_refused_at_its_first_line() -> None:
    async def get_object(**_: Any) -> Any:
        return {"Body": Endless()}

    client: Any = SimpleNamespace(get_object=get_object)
    with pytest.raises(PermanentError) as caught:
        async for _ in Objects(client, "bucket").lines("key"):
            pass
    assert "runtime.record.unreadable" == caught.value.code


@pytest.mark.attack("archives")
def test_a_giant_result_is_refused_with_its_size() -> None:
    async def stage() -> str:
        return ""

    with pytest.raises(PermanentError, match="has 16,777,219 bytes") as caught:
        values.encode(stage, "x" * (values.VALUE_LIMIT + 1))
    assert "runtime.value.too_large" == caught.value.code


@pytest.mark.attack("archives")
def test_a_deep_result_is_refused() -> None:
    def stage() -> Any:
        return None

    text = "[" * 191 + "]" * 191
    with pytest.raises(PermanentError) as caught:
        values.decode(stage, text)
    assert "runtime.value.unreadable" == caught.value.code


@pytest.mark.attack("archives")
def test_of_a_giant_message_only_the_beginning_is_looked_at() -> None:
    message = "sk-live-aaaaaaaaaaaa " + "é" * 5_000_000
    kept = ErrorEnvelope(
        code="a.b.c", error_class=ErrorClass.PERMANENT, message=message
    ).message
    assert kept.startswith("[redacted api key] é")
    assert (MESSAGE_LIMIT, "…") == (len(kept), kept[-1])


def test_a_giant_label_is_cut() -> None:
    assert len(clean_label("word " * 1_000_000)) <= LABEL_LENGTH
    assert sys.getsizeof(clean_label("x" * 1_000_000)) < 1_000
