"""What `ctx.wait_for` declares: a question, its steps, the model of its answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from piecework.answers import MOST_BYTES, is_model, model_name
from piecework.domain.keys import is_name
from piecework.domain.mismatch import loss_of
from piecework.domain.moments import LONGEST_WAIT_S
from piecework.domain.payload import keep_payload
from piecework.domain.question import Ask, StepKind
from piecework.domain.round_trip import NotKeptError
from piecework.domain.strict_json import KIB
from piecework.errors import UsageError

#: How long something takes: a `timedelta`, or seconds.
Duration: TypeAlias = timedelta | float

#: Seconds between two steps of a question, at least: each has its own moment.
APART_S = 0.002
#: Bytes of a question with its schema: its item has room for an answer, too.
MOST_ROW_BYTES = 256 * KIB
#: Steps of a question, at most.
MOST_STEPS = 20


class Approval(BaseModel):
    """The answer of a question without a model of its own: yes or no."""

    approved: bool
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Escalate:
    """Tell a question to another receiver if it is still open.

    Attributes:
        after: The time since the question was asked.
        to: To whom: the webhook's event has this text.
    """

    after: Duration
    to: str = ""


def declare(
    name: str,
    ask: Any,
    model: type[BaseModel],
    timeout: Duration,
    remind: Sequence[Duration],
    escalate: Escalate | Sequence[Escalate],
    default: BaseModel | None,
) -> Ask:
    """Return a question as its stage declares it.

    Raises:
        UsageError: `pipeline.wait.invalid`.
    """
    if not is_name(name):
        rule = "a name has 1 to 64 letters, digits, `-` and `_`"
        raise invalid(f"{name!r} is not the name of a question: {rule}")
    if not is_model(model):
        raise invalid(f"the answer of {name!r} is not a pydantic model")
    if found := loss_of(model.__pydantic_core_schema__, read_by_alias=True):
        raise invalid(f"the answer of {name!r} cannot be stored: {found}")
    stored = default_text(name, model, default)
    escalations = [escalate] if isinstance(escalate, Escalate) else escalate
    timeout_s = seconds(timeout)
    steps = [
        (0.0, StepKind.ASK, ""),
        *((seconds(span), StepKind.REMIND, "") for span in remind),
        *((seconds(e.after), StepKind.ESCALATE, e.to) for e in escalations),
    ]
    steps.sort(key=lambda step: step[0])
    if len(steps) > MOST_STEPS:
        most = MOST_STEPS - 1
        raise invalid(f"{name!r} has more than {most} reminders and escalations")
    if not timeout_s <= LONGEST_WAIT_S:
        raise invalid(f"the timeout of {name!r} is {timeout_s:g} s: it is too long")
    last = timeout_s - APART_S * MOST_STEPS
    if last < 0:
        raise invalid(f"the timeout of {name!r} is {timeout_s:g} s: it is too short")
    if not all(0 <= after <= last for after, _, _ in steps):
        raise invalid(f"a step of {name!r} is not before the end of its time")
    question = Ask(
        name=name,
        ask=ask_text(name, ask),
        model=model_name(model),
        answer_schema=json.dumps(model.model_json_schema(), separators=(",", ":")),
        timeout_s=timeout_s,
        steps=[(apart(s, n), kind, to) for n, (s, kind, to) in enumerate(steps)],
        default=stored,
    )
    if question.size > MOST_ROW_BYTES:
        raise invalid(f"{name!r} has in all more than {MOST_ROW_BYTES:,} bytes")
    return question


def default_text(
    name: str, model: type[BaseModel], default: BaseModel | None
) -> str | None:
    """Return the default as JSON; None without a default.

    Raises:
        UsageError: `pipeline.wait.invalid`.
    """
    if default is None:
        return None
    reason = f"does not fit {model.__name__}"
    try:
        if isinstance(default, model):
            return keep_payload(model, default, by_alias=False)[0]
    except NotKeptError as error:
        reason = f"would change in its JSON: {error}"
    except ValueError:
        pass
    raise invalid(f"the default of {name!r} {reason}")


def apart(step_s: float, number: int) -> float:
    """Return the seconds of a step, so that no two steps have the same moment."""
    return step_s + number * APART_S


def seconds(duration: Duration) -> float:
    """Return a duration in seconds.

    Raises:
        UsageError: `pipeline.wait.invalid`.
    """
    found = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise invalid(f"{duration!r} is not a span of time")
    return float(found)


def ask_text(name: str, ask: Any) -> str:
    """Return what people read, as JSON.

    Raises:
        UsageError: `pipeline.wait.invalid`.
    """
    try:
        text = json.dumps(to_jsonable_python(ask), ensure_ascii=False)
    except ValueError as error:
        raise invalid(f"the text of {name!r} is not a JSON value") from error
    if len(text.encode()) > MOST_BYTES:
        raise invalid(f"the text of {name!r} is longer than {MOST_BYTES:,} bytes")
    return text


def invalid(problem: str) -> UsageError:
    """Return the error of a question that cannot be asked."""
    return UsageError(
        f"The stage cannot wait: {problem}.", code="pipeline.wait.invalid"
    )
