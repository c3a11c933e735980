"""Questions that stages ask people, and the index of the chunks that wait long.

    OPEN -> ANSWERED    a person answered, before the time was over
    OPEN -> DEFAULTED   the time was over, and the question has a default
    OPEN -> EXPIRED   the time was over without one: the stage fails

The row of a question is beside the other rows of its chunk. So the next claim loads it
with them, and a stage that runs again gets the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from piecework.domain import keys, records
from piecework.domain.fields import AnyText, Decoded, Number, Present, ShownText, Text
from piecework.domain.moments import iso, moment
from piecework.domain.rows import Row

#: The code of a question whose time was over, and that has no default.
TIMED_OUT_CODE = "runtime.wait.timed_out"


class QuestionState(StrEnum):
    """The states of a question."""

    OPEN = "OPEN"
    ANSWERED = "ANSWERED"
    DEFAULTED = "DEFAULTED"
    EXPIRED = "EXPIRED"


class StepKind(StrEnum):
    """What happens while a question is open."""

    #: It is told to the webhooks.
    ASK = "ask"
    #: It is told again.
    REMIND = "remind"
    #: It is told to another receiver.
    ESCALATE = "escalate"


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a question, at its moment; in a row the moment is ISO 8601.

    Attributes:
        to: To whom a question is escalated; empty for other steps.
    """

    at: str
    kind: StepKind
    to: str = ""

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Step:
        """Read a step of a row."""
        what = "A step of a question"
        kind = StepKind(records.read_text(item, "kind", what))
        return cls(records.read_text(item, "at", what), kind, str(item.get("to", "")))

    @property
    def item(self) -> dict[str, str]:
        """The step as its row has it."""
        facts = {"at": self.at, "kind": str(self.kind)}
        return {**facts, "to": self.to} if self.to else facts


def steps_of(found: Any) -> list[Step]:
    """Decode the steps of a question."""
    return [Step.read(item) for item in found or ()]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a stage asks, before its first run has decided the moments.

    Attributes:
        name: The name of the question in its stage.
        ask: What people read: JSON.
        model: Module and name of the answer's model.
        answer_schema: The model's JSON schema, for people and for forms.
        timeout_s: Seconds until the question ends without an answer.
        steps: Seconds from the question to each step, its kind and its receiver.
        default: The answer at the end, as JSON; None: then the stage fails.
    """

    name: str
    ask: str
    model: str
    answer_schema: str
    timeout_s: float
    steps: Sequence[tuple[float, StepKind, str]] = ()
    default: str | None = None

    @property
    def size(self) -> int:
        """The bytes of its texts, which have no limit each."""
        receivers = [to for _, _, to in self.steps]
        texts = [self.ask, self.answer_schema, self.default or "", *receivers]
        return len("".join(texts).encode())

    def at(self, stage: str, name: str, now: float) -> Question:
        """Return the question that the first run of a stage asks now."""
        steps = [Step(iso(now + s), kind, to) for s, kind, to in self.steps]
        until = iso(now + self.timeout_s)
        facts = {
            "stage": stage,
            "question": name,
            "ask": self.ask,
            "model": self.model,
            "schema": self.answer_schema,
            "state": QuestionState.OPEN,
            "asked_at": iso(now),
            "until": until,
            "steps": [step.item for step in steps],
        }
        if self.default is not None:
            facts["default"] = self.default
        return Question(stage, name, until, steps, facts)


@dataclass(frozen=True, slots=True)
class Question:
    """An open question, as a claim ends with it.

    Attributes:
        until: When it ends without an answer, ISO 8601.
        facts: The row to write; None: it is written already.
    """

    stage: str
    name: str
    until: str
    steps: Sequence[Step]
    facts: Mapping[str, Any] | None = None

    def next_step(self, after: str) -> tuple[str, int | None]:
        """Return when something is due next, and the number of that step.

        None: the question's time is over then.
        """
        for number, step in enumerate(self.steps):
            if step.at > after:
                return step.at, number
        return self.until, None


@dataclass(frozen=True, slots=True)
class QuestionRow(Row):
    """A question as it is stored."""

    WHAT = "A question"

    stage = Text("The stage that asks.")
    name = Text("Its name in the stage.", "question")
    gen = Number("The generation of the chunk that asked it.")
    stored_state = Text("`OPEN`, `ANSWERED`, `DEFAULTED` or `EXPIRED`.", "state")
    ask = Text("What people read, as JSON.")
    model = Text("Module and name of the answer's model.")
    stored_schema = AnyText(
        "The JSON schema of the answer's model; empty: every value is accepted.",
        "schema",
    )
    asked_at = Text("When it was asked.")
    until = Text("When it ends without an answer.")
    steps = Decoded(
        steps_of,
        "Its steps by time. Each has `at`, `kind` and, of an escalation, `to`.",
        kind="list",
    )
    has_default = Present("Whether it has a default; the value is JSON.", "default")
    answer = Text("Of an answered one: the answer as JSON.")
    decided_at = ShownText("When it ended; empty: it is open.")
    decided_by = ShownText("The person who answered; empty: none did.")
    decide_reason = ShownText("The reason of the answer; empty: none.")

    @property
    def state(self) -> QuestionState:
        """Its state."""
        return QuestionState(self.stored_state)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of the answer's model; empty: every value is accepted."""
        found = json.loads(self.stored_schema or "{}")
        return found if isinstance(found, dict) else {}

    @property
    def value(self) -> str | None:
        """The answer or the default that counts, as JSON; None: none does."""
        match self.state:
            case QuestionState.ANSWERED:
                return self.answer
            case QuestionState.DEFAULTED:
                return records.read_text(self.item, "default", self.what)
            case _:
                return None

    def outcome(self, now: float) -> str:
        """Return for people what was decided, by which person or rule, and when.

        Empty: it may still be answered.
        """
        if self.state is QuestionState.ANSWERED:
            by, at, reason = self.decided_by, self.decided_at, self.decide_reason
            return f"{by} answered {self.value} at {at} ({reason})"
        if self.state is QuestionState.OPEN and not self.is_over(now):
            return ""
        over = f"its time was over at {self.until}"
        if self.has_default:
            return f"{over}, so its default counts: {self.item['default']}"
        return f"{over} without an answer, so its stage failed ({TIMED_OUT_CODE})"

    def is_kept_for(self, gen: int, accepts: Callable[[str], bool]) -> bool:
        """Return whether a generation of the chunk need not ask it again.

        A question that ended in an earlier generation without an answer is asked anew.
        So is a question of an earlier generation if the stage's model does not accept
        its answer.
        """
        if self.gen == gen:
            return True
        return self.value is not None and accepts(self.value)

    def is_over(self, now: float) -> bool:
        """Return whether its time is over."""
        return moment(self.until) <= now

    @property
    def again(self) -> Question:
        """The question for a claim that still has to wait for its end."""
        return Question(self.stage, self.name, self.until, self.steps)


# ── the index of the chunks that wait long ────────────────────────────────────


@dataclass(frozen=True, slots=True)
class WaitRow(Row):
    """A chunk in the index of a job: at `due_at` its wait ends, or a step is due."""

    WHAT = "A wait"

    due_at = Text("When it is due, ISO 8601.")
    chunk = Number(
        "The number of the chunk; `keys.JOIN_CHUNK` for the join.",
        least=keys.JOIN_CHUNK,
    )
    gen = Number("The generation of the chunk.")
    stage = AnyText("The stage that asks; empty: the chunk waits for a moment only.")
    question = AnyText(
        "The name of the question; empty: the chunk waits for a moment only."
    )
    child = AnyText("The child job whose end it tells; empty: it tells none.")
    is_step = Present(
        "Whether a step of a question is due then, and not the chunk itself.", "step"
    )
    step = Number("The number of the step that is due.")
