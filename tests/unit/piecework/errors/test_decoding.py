"""An answer that cannot be decoded: a call is repeated, a stage is not."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pydantic import BaseModel, TypeAdapter

from piecework import Context, Dependency, Pipeline, Stage, named_call
from piecework.errors.classify import classify
from piecework.testing import run_in_memory


class Item(BaseModel):
    """A chunk without data."""


class Price(BaseModel):
    """What the service answers."""

    cents: int


def kind_of(module: str, name: str, *bases: type[Exception]) -> type[Exception]:
    """Return a type of a library that is not installed here."""
    return type(name, bases or (Exception,), {"__module__": module})


class OurError(ValueError):
    """A function wraps what its library raises."""


def wrapped() -> None:
    try:
        json.loads("<html>")
    except ValueError as error:
        message = "no price"
        raise OurError(message) from error


def raising(error: type[Exception]) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


READS: dict[str, Callable[[], object]] = {
    "json": lambda: json.loads("<html>"),
    "bytes": lambda: json.loads(b"\xff\xfe\xff"),
    "wrapped": wrapped,
    "pydantic": lambda: Price.model_validate_json("{}"),
    "pydantic, not JSON": lambda: TypeAdapter(int).validate_json("<html>"),
    "xml": raising(kind_of("xml.etree.ElementTree", "ParseError", SyntaxError)),
    "httpx": raising(kind_of("httpx", "DecodingError")),
    "requests": raising(kind_of("requests.exceptions", "JSONDecodeError", OSError)),
    "orjson": raising(kind_of("orjson", "JSONDecodeError", ValueError)),
    "simplejson": raising(kind_of("simplejson.errors", "JSONDecodeError", ValueError)),
    "msgspec": raising(
        kind_of("msgspec", "ValidationError", kind_of("msgspec", "DecodeError"))
    ),
}


@pytest.mark.parametrize("read", READS)
async def test_an_answer_that_cannot_be_decoded_is_asked_for_again(read: str) -> None:
    asked = []

    @named_call("ask")
    async def ask(*, idempotency_key: str) -> int:
        asked.append(idempotency_key)
        if len(asked) == 1:
            READS[read]()
        return 7

    async def price(ctx: Context[Item]) -> int:
        return await ctx.call(Dependency("shop"), ask)

    pipeline = Pipeline("pricing", payload=Item, stages=[Stage(price)])
    run = await run_in_memory(pipeline, [Item()])

    assert ({0: 7}, 2) == (run.results, len(asked))


@pytest.mark.parametrize("read", READS)
def test_outside_a_call_it_is_permanent(read: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- each library has its own
        READS[read]()

    inside = classify(caught.value, in_call=True)
    assert ("tool.http.malformed_body", True) == (inside.code, inside.retryable)
    if read != "httpx":  # the transport's own error is transient anywhere
        assert not classify(caught.value).retryable


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("no"), "call"),
        (KeyError("cents"), "call"),
        (AssertionError(), "call"),
        (FileNotFoundError(2, "gone"), "call"),
        (NameError("cents"), "stage"),
        (ModuleNotFoundError("cents"), "stage"),
        (NotImplementedError(), "stage"),
    ],
)
def test_what_no_rule_knows_may_be_an_error_of_the_network(
    error: Exception, code: str
) -> None:
    found = classify(error, in_call=True)
    assert (f"runtime.{code}.unhandled", "permanent") == (found.code, found.error_class)
    assert "runtime.stage.unhandled" == classify(error).code


def test_a_models_answer_that_does_not_validate_is_semantic() -> None:
    with pytest.raises(ValueError, match="cents") as caught:
        Price.model_validate_json("{}")

    found = classify(caught.value, layer="llm", in_call=True)
    assert ("llm.output.invalid", "semantic") == (found.code, found.error_class)
