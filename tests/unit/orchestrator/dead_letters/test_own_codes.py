"""A pipeline's own error codes have rows, which each dead letter of them shows."""

from __future__ import annotations

import io
from typing import Any

import pytest
from pydantic import BaseModel
from rich.console import Console

from piecework import (
    Code,
    Context,
    ErrorClass,
    PermanentError,
    Pipeline,
    Stage,
    TransientError,
    UsageError,
    pipeline,
)
from piecework.errors.codes import ROWS
from piecework.telemetry.emit import listening
from piecework_orchestrator.cli.views.dead_letters import letter_view
from piecework_orchestrator.dead_letters.letters import dead_letter_document
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

DECLINED = Code(
    "orders.card.declined",
    cause="The bank declined the card.",
    recovery="Ask the customer for another card, then redrive.",
)
TEXTS = {"cause": "It broke.", "recovery": "Mend it."}


class Order(BaseModel):
    """How the only stage fails."""

    trouble: str


async def charge(ctx: Context[Order]) -> str:
    """Raise the code of the payload."""
    match ctx.payload.trouble:
        case "row":
            raise PermanentError("No.", code=DECLINED)
        case "no class":
            raise TransientError("Not now.", code=DECLINED)
        case code:
            raise PermanentError("No.", code=code)


def orders(codes: Any) -> Pipeline[Order]:
    return Pipeline("orders", payload=Order, stages=[Stage(charge)], codes=codes)


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ([Code("declined", **TEXTS)], "'declined' is not of the form"),
        ([Code("orders.card", **TEXTS)], "'orders.card' is not of the form"),
        ([Code("Orders.card.declined", **TEXTS)], "is not of the form"),
        ([Code(ROWS[0].code, **TEXTS)], "is one of Piecework's"),
        ([DECLINED, Code(DECLINED.code, **TEXTS)], "two of its codes are"),
        ([Code("a.b.c", recovery="Mend it.")], "'a.b.c' has no cause"),
        ([Code("a.b.c", cause="It broke.", recovery=" ")], "'a.b.c' has no recovery"),
        ([Code("a.b.c", cause="x" * 1_001, recovery="y")], "a cause of more than"),
        ([Code("a.b.c", "fatal", **TEXTS)], "the class 'fatal'"),  # type: ignore[arg-type]
        (["orders.card.declined"], "is not a `Code`"),
    ],
)
def test_a_bad_row_is_refused_where_it_is_declared(codes: Any, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        orders(codes)
    assert refused.value.code == "pipeline.declaration.invalid"
    assert said in refused.value.message

    @pipeline(codes=codes)
    async def again(order: Order) -> str:
        return order.trouble

    with pytest.raises(UsageError, match="code"):
        assert again.declared


def test_an_error_takes_a_code_or_its_text_and_its_type_decides_the_class() -> None:
    for code in (DECLINED, "orders.card.declined"):
        error = TransientError("No.", code=code)
        assert error.code == "orders.card.declined"
        assert type(error.code) is str
        assert error.error_class is ErrorClass.TRANSIENT
    assert PermanentError("No.", code=DECLINED).next_step == DECLINED.recovery


def test_a_dead_letter_and_its_event_have_the_row_of_their_code_or_lack_it() -> None:
    troubles = ("row", "no class", DECLINED.code, "orders.stock.gone", "Gone!")
    product = "llm.context.overflow"
    told: dict[int, dict[str, Any]] = {}

    def hear(name: str, facts: Any) -> None:
        if name == "chunk.dead_lettered":
            told[facts["chunk"]] = dict(facts)

    async def act(here: Simulated) -> list[tuple[dict[str, Any], str]]:
        rows = [Order(trouble=trouble) for trouble in (*troubles, product)]
        await here.submit(orders([DECLINED]), rows)
        await here.ended()
        found = []
        for chunk in range(len(rows)):
            letter = await dead_letter_document(here.rt, REF.chunk(chunk))
            console = Console(file=io.StringIO(), width=200)
            letter_view(letter, here.rt.clock())(console)
            found.append((letter, console.file.getvalue()))  # type: ignore[attr-defined]
        return found

    with listening(hear):
        found = simulate(act, [orders([DECLINED])])

    stock = "The code orders.stock.gone has no row: declare it in "
    gone = "The code app.gone has no row: give it the form `layer.kind.detail`, and "
    row = (DECLINED.cause, DECLINED.recovery)
    expected = [row, row, row, (None, stock), (None, gone), (None, None)]
    for chunk, ((letter, shown), (cause, recovery)) in enumerate(
        zip(found, expected, strict=True)
    ):
        for facts in (letter, told[chunk]):
            assert (facts.get("cause") or None) == cause
            assert str(facts.get("recovery") or None).startswith(str(recovery))
        assert all(text in shown for text in (cause, recovery) if text)
