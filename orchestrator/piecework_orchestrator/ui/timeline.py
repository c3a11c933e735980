"""Lay the timeline of a chunk, and its calls, out as bars on one axis of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from piecework_orchestrator.reading.job_documents import Document
from piecework_orchestrator.reading.times import epoch

#: Units of the axis, and those of the shortest bar, so that each is seen.
AXIS, SHORTEST = 1000, 6
#: What the end of a claim is called on the page.
ENDS: Final = {
    "lost": "taken over: its worker lost the lease",
    "retry": "failed, to be tried again",
    "deferred": "deferred",
    "released": "released by a worker that stopped",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A claim, a wait or a stage on the axis.

    Attributes:
        tone: The class of its colour: the kind, or how a claim ended.
        x, width: Its place on the axis.
        title: What it is, in words.
        facts: What else is known of it, in words.
    """

    kind: str
    tone: str
    x: int
    width: int
    title: str
    facts: str
    began: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """The bars of a chunk, the earliest first.

    Attributes:
        began: The beginning of the axis, ISO 8601; empty without a bar.
        seconds: What the axis spans.
    """

    began: str
    seconds: float
    bars: Sequence[Bar]


def make_timeline(document: Document) -> Timeline:
    """Return the bars of the timeline of a chunk."""
    # A claim comes before the stages that ran in it.
    spans = sorted(
        document["spans"], key=lambda span: (str(span["from"]), span["kind"] == "stage")
    )
    if not spans:
        return Timeline("", 0.0, ())
    began = min(epoch(span["from"]) for span in spans)
    whole = max(max(epoch(span["to"]) for span in spans) - began, 1e-3)
    return Timeline(
        str(spans[0]["from"]), whole, [make_bar(span, began, whole) for span in spans]
    )


def make_bar(span: Document, began: float, whole: float) -> Bar:
    """Return the bar of a span."""
    x = round((epoch(span["from"]) - began) / whole * AXIS)
    end = round((epoch(span["to"]) - began) / whole * AXIS)
    x = min(x, AXIS - SHORTEST)
    title, facts = words_of(span)
    return Bar(
        kind=span["kind"],
        tone=str(span.get("end", span["kind"])),
        x=x,
        width=max(end - x, SHORTEST),
        title=title,
        facts=facts,
        began=str(span["from"]),
        seconds=span["seconds"],
    )


def words_of(span: Document) -> tuple[str, str]:
    """Return the title of a span, and its facts."""
    worker = f"worker {span['worker']}" if span.get("worker") else ""
    if span["kind"] == "wait":
        return "Wait", f"for {span.get('reason', '')}"
    if span["kind"] == "stage":
        attempt = f"attempt {span['attempt']}" if span.get("attempt") else ""
        return f"Stage {span['name']}", joined(attempt, worker)
    end = str(span["end"])
    title = f"Attempt {span['attempt']}" if span.get("attempt") else "Claim"
    return title, joined(ENDS.get(end, end), str(span.get("code", "")), worker)


def joined(*words: str) -> str:
    """Return the words that are not empty, with commas."""
    return ", ".join(filter(None, words))


# ── calls ─────────────────────────────────────────────────────────────────────

#: The class of the colour of a call, by its end; that of others: `claim cancelled`.
TONES: Final = {"made": "stage", "found": "stage", "failed": "claim dead"}


@dataclass(frozen=True, slots=True)
class CallBar:
    """A call on the axis: first its wait, then its attempts.

    Attributes:
        wait_x, wait_width: The place of the wait; a width of 0: there was none.
    """

    tone: str
    wait_x: int
    wait_width: int
    x: int
    width: int
    call: Document


def make_waterfall(calls: Sequence[Document]) -> list[CallBar]:
    """Return the bars of calls; one without a time begins at the axis."""
    times = [epoch(call["asked_at"]) for call in calls if call["asked_at"]]
    began = min(times, default=0.0)
    ends = [epoch(c["asked_at"]) + c["took_s"] for c in calls if c["asked_at"]]
    whole = max(max(ends, default=0.0) - began, 1e-3)
    return [make_call_bar(call, began, whole) for call in calls]


def make_call_bar(call: Document, began: float, whole: float) -> CallBar:
    """Return the bar of a call."""
    asked = epoch(call["asked_at"]) - began if call["asked_at"] else 0.0
    at = [asked, asked + call["waited_s"], asked + call["took_s"]]
    first, sent, end = (min(round(each / whole * AXIS), AXIS) for each in at)
    x = min(sent, AXIS - SHORTEST)
    tone = TONES.get(call["end"], "claim cancelled")
    return CallBar(tone, first, x - first, x, max(end - x, SHORTEST), call)
