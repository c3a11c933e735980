"""The catalogue of spans, and the tree of spans that the events of a claim make.

Nothing here knows OpenTelemetry: `traces.py` sends the trees. A span is made of events
that logs and metrics have, too, so the three agree. Events have no payloads, and so
spans have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["internal", "client", "consumer", "producer"]
#: The types of values that a span may have.
Value: TypeAlias = str | int | float | bool | Sequence[str]


class SpanRow(NamedTuple):
    """A row of the catalogue.

    Attributes:
        kind: OpenTelemetry's kind of the span.
        when: What the span covers.
        attributes: The field of an event, or of the claim, by attribute.
    """

    kind: Kind
    when: str
    attributes: Mapping[str, str]


def _row(kind: Kind, when: str, ours: str, **others: str) -> SpanRow:
    """Return a row; `ours` become attributes with the prefix `piecework.`."""
    named = {f"piecework.{name}": name for name in ours.split()}
    return SpanRow(kind, when, MappingProxyType(named | others))


_CHUNK: Final = "tenant job chunk gen pipeline"
SPANS: Final[Mapping[str, SpanRow]] = MappingProxyType(
    {
        "submit": _row(
            "producer",
            "a submit, from its first row to its last message",
            "tenant job pipeline chunks error_code",
            **{
                "messaging.destination.name": "queue",
                "messaging.batch.message_count": "chunks",
                "error.type": "error_code",
            },
        ),
        "message": _row(
            "consumer",
            "the work on a message, or on a chunk that the worker took without one",
            f"{_CHUNK} receive_count",
            **{
                "messaging.destination.name": "queue",
                "messaging.message.id": "message_id",
            },
        ),
        "chunk": _row(
            "internal",
            "a claim, until its outcome is written",
            f"{_CHUNK} attempt fence worker code_version outcome error_code delay_s"
            " calls replayed cached retried blocked_on",
            **{"error.type": "error_code"},
        ),
        "stage": _row(
            "internal",
            "a function of a stage, or its compensation",
            "stage variant outcome error_code",
            **{"error.type": "error_code"},
        ),
        "attempt": _row(
            "client",
            "an attempt of a call",
            "dependency outcome error_code attempt_number delay_ms"
            " idempotency_key_hash",
            **{
                "error.type": "error_code",
                "gen_ai.provider.name": "provider",
                "gen_ai.request.model": "model",
                "gen_ai.response.model": "response_model",
                "gen_ai.response.finish_reasons": "finish_reasons",
                "gen_ai.usage.input_tokens": "tokens_in",
                "gen_ai.usage.output_tokens": "tokens_out",
                "gen_ai.usage.cache_read.input_tokens": "cached_tokens_in",
                "gen_ai.usage.cache_creation.input_tokens": "cache_write_tokens_in",
            },
        ),
        "compensation": _row(
            "internal",
            "a compensation of the stages of a chunk by one claim",
            "error_code stage steps to_compensate compensation uncompensated",
            **{"error.type": "error_code"},
        ),
    }
)
#: The attributes with one value: the system of all queues is SQS.
SQS: Final = "aws_sqs"


class Moment(NamedTuple):
    """An event of a claim: its time in seconds since 1970, its name and its fields."""

    at: float
    name: str
    fields: Mapping[str, Any]


@dataclass(slots=True)
class Span:
    """A span and those inside it; times in seconds since 1970."""

    kind: Kind
    name: str
    started_at: float
    ended_at: float
    attributes: dict[str, Value]
    error_code: str = ""
    children: list[Span] = field(default_factory=list)


#: The events that end a claim, and the outcome that its span has.
CLAIM_ENDS: Final = MappingProxyType(
    {
        "chunk.succeeded": "succeeded",
        "chunk.retry_scheduled": "retry scheduled",
        "chunk.deferred": "deferred",
        "chunk.released": "released",
        "chunk.paused": "paused",
        "chunk.sleeping": "sleeping",
        "chunk.batching": "batching",
        "chunk.asking": "asking",
        "chunk.mapping": "mapping",
        "chunk.cancelled": "cancelled",
        "chunk.dead_lettered": "dead-lettered",
        "lease.lost": "lease lost",
    }
)
#: All events that a claim keeps for its spans.
RECORDED: Final = frozenset(
    {
        *CLAIM_ENDS,
        "call.attempt",
        "chunk.claimed",
        "compensation.ended",
        "compensation.started",
        "stage.ended",
    }
)


#: The outcomes of an attempt and of a stage that no recovery follows.
_AS_EXPECTED: Final = frozenset({"answered", "returned"})


def has_recovery(moments: Sequence[Moment]) -> bool:
    """Return whether a claim did anything but succeed at its first attempts.

    One loop, because each claim pays for it.
    """
    has_succeeded = False
    for _, name, fields in moments:
        if name == "call.attempt" or name == "stage.ended":  # noqa: PLR1714 -- faster
            if fields["outcome"] not in _AS_EXPECTED:
                return True
        elif name == "chunk.succeeded":
            has_succeeded = True
    return not has_succeeded


def spans_of(
    claim: Mapping[str, Any], moments: Sequence[Moment], started: float, ended: float
) -> Span | None:
    """Return the span of a message with all that is inside; None: nothing was claimed.

    `claim` has the fields of the claim that its events lack.
    """
    claimed = next((m for m in moments if m.name == "chunk.claimed"), None)
    if claimed is None:
        return None
    end = next((m for m in reversed(moments) if m.name in CLAIM_ENDS), None)
    facts = {**claim, **claimed.fields}
    queue, pipeline = claim["queue"], claim["pipeline"]
    message = span("message", f"process {queue}", started, ended, facts)
    message.attributes |= {
        "messaging.system": SQS,
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
    }
    if end is not None:
        facts |= {"outcome": CLAIM_ENDS[end.name], **end.fields}
    until = ended if end is None else end.at
    chunk = span("chunk", f"chunk {pipeline}", claimed.at, until, facts)
    chunk.attributes |= claim.get("payload", {})
    message.children.append(chunk)
    nest(chunk, moments)
    return message


def nest(chunk: Span, moments: Sequence[Moment]) -> None:
    """Put the attempts into their stages, and compensations into their chain.

    Stages run one after another. So the attempts since the end of the last one belong
    to the stage that ends next.
    """
    within, attempts = chunk, []
    for moment in moments:
        fields = moment.fields
        match moment.name:
            case "call.attempt":
                attempts.append(attempt_span(moment))
            case "stage.ended":
                stage = ended_span("stage", f"stage {fields['stage']}", moment)
                stage.children, attempts = attempts, []
                within.children.append(stage)
            case "compensation.started":
                within = span(
                    "compensation", "compensation", moment.at, chunk.ended_at, fields
                )
                chunk.children.append(within)
            case "compensation.ended":
                within.ended_at = moment.at
                within.attributes |= attributes("compensation", fields)
                within = chunk
    chunk.children += attempts


def attempt_span(moment: Moment) -> Span:
    """Return the span of an attempt; that of a model has the name that GenAI gives."""
    model = moment.fields.get("model")
    name = f"chat {model}" if model else f"attempt {moment.fields['dependency']}"
    found = ended_span("attempt", name, moment)
    if model:
        found.attributes["gen_ai.operation.name"] = "chat"
    return found


def ended_span(row: str, name: str, moment: Moment) -> Span:
    """Return the span of an event that says how long something took."""
    lasted = (moment.fields.get("duration_ms") or 0) / 1000
    return span(row, name, moment.at - lasted, moment.at, moment.fields)


def span(
    row: str, name: str, started: float, ended: float, fields: Mapping[str, Any]
) -> Span:
    """Return a span with the attributes of its row."""
    code = fields.get("error_code") or ""
    found = attributes(row, fields)
    return Span(SPANS[row].kind, name, started, max(started, ended), found, code)


def attributes(row: str, fields: Mapping[str, Any]) -> dict[str, Value]:
    """Return the attributes of a row that the fields have a value for."""
    return {
        attribute: value
        for attribute, name in SPANS[row].attributes.items()
        if (value := fields.get(name)) is not None and value != ""
    }
