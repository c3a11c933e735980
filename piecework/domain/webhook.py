"""Webhooks: what an operator subscribes an address to, and what is sent there.

An event has one id, whatever the number of its webhooks and attempts, so that a
receiver recognises a repetition. No event has a payload, a result or a label.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from piecework.domain import keys
from piecework.domain.fields import (
    AnyText,
    Count,
    Decoded,
    Number,
    OptionalNumber,
    OptionalText,
    ShownText,
    Text,
    text_list,
)
from piecework.domain.rows import Row

#: What a webhook may subscribe to, and when each event is written.
EVENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "job.ended": "A job ended, in any status.",
        "job.paused": "A job was paused, by a person or by a rule.",
        "job.out_of_budget": "A job was paused because its budget is spent.",
        "job.stuck": "A job has made no progress for the time of the webhook.",
        "breaker.open": "A circuit breaker has been open for the time of the webhook.",
        "dead_letters.arrived": "Dead letters arrived as fast as the alarm says.",
        "dead_letter.escalated": "A dead letter reached a rung of its ladder.",
        "question.asked": "A stage asks a person.",
        "question.reminded": "A question is still open: a reminder.",
        "question.escalated": "A question is still open: another receiver is told.",
        "question.timed_out": "The time of a question was over without an answer.",
    }
)
#: The events of states that last: reconcilers watch for them.
WATCHED: Final = ("job.stuck", "breaker.open")
#: Reconcilers look for these in each tenant with a webhook for one of them.
LOOKED_FOR: Final = (*WATCHED, "dead_letters.arrived")
#: The end of such a state is told to the webhooks that were told of it.
OVER: Final = ".over"
#: The event of `piecework webhooks test`; each webhook gets its own.
TEST: Final = "test"
#: How the body is written: our document, or a message for Slack.
FORMATS: Final = ("json", "slack")
#: Seconds from a failed attempt to the next one. There are nine attempts in all, the
#: last one a day after the one before. The first attempt follows the event at once.
DELAYS_S: Final = (1, 5, 30, 300, 1_800, 7_200, 28_800, 86_400)
ATTEMPTS: Final = len(DELAYS_S) + 1
#: References to variables of the process that delivers. No other variable may be sent.
REFERENCE: Final = "env:"
VARIABLES: Final = "PIECEWORK_WEBHOOK_"


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """Something that happened, as its webhooks tell it.

    Attributes:
        kind: A key of `EVENTS`.
        id: The same for each webhook and each attempt.
        at: When it happened, ISO 8601, UTC.
        text: One sentence for people.
        command: The command that shows more.
        data: The facts for programs.
        asks: The question that a person may answer by a link, as `AnswerLinks.link`
            takes it. Empty: the event tells of no open question.
    """

    kind: str
    id: str
    at: str
    tenant: str
    text: str
    command: str
    pipeline: str = ""
    job: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    asks: Mapping[str, Any] = field(default_factory=dict)


def event_id(*parts: str | int) -> str:
    """Return the id of the event that these parts identify."""
    return f"evt_{keys.sha256_of(*parts)[:32]}"


# ── the rows ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Webhook(Row):
    """A webhook of a tenant: an address, and the events that are sent to it."""

    WHAT = "A webhook"

    name = Text("Its name.", "sk")
    url = Text("The address, or a reference to the variable that has it.")
    secret = AnyText(
        "The reference to the variable that has the secret, never a secret; empty: not "
        "signed."
    )
    format = Text("One of `FORMATS`: `json` or `slack`.")
    events = Decoded(
        text_list, "The kinds of events that it gets; empty: all.", kind="list"
    )
    pipeline = AnyText("The pipeline whose events it gets; empty: every pipeline.")
    after_s = Count(
        "Seconds that a state lasts until it is told; 0: as the environment says."
    )
    set_by = ShownText("The operator who set it.")
    set_at = ShownText("When it was set.")
    failed_at = AnyText("When an event failed last; empty: none waits for an operator.")
    last_error = AnyText("Why that event failed.")

    def wants(self, kind: str) -> bool:
        """Return whether it gets a kind of events."""
        return not self.events or kind in self.events

    def accepts(self, event: WebhookEvent) -> bool:
        """Return whether an event is sent to it."""
        return self.wants(event.kind) and self.pipeline in ("", event.pipeline)


@dataclass(frozen=True, slots=True)
class WebhookDelivery(Row):
    """An event on its way to one webhook; `store.outbox` has the states."""

    WHAT = "A delivery"

    webhook = Text("The name of its webhook.")
    event = Text("The id of its event.")
    kind = Text("The kind of its event.")
    job = AnyText("The job that it is about; empty: it is about no job.")
    at = ShownText("When the event happened.")
    body = Text("The body as it is stored: without a link, which its sender adds.")
    stored_asks = AnyText(
        "The open question of which it tells, as JSON; empty: it tells of none.", "asks"
    )
    state = Text("`PENDING`, `DELIVERED` or `FAILED`.")
    due_at = Text("When it is due, or until when a process delivers it.")
    claims = Number("How often a process took it to deliver it.")
    attempts = Number("How many attempts failed since it was written or sent again.")
    last_error = ShownText("The reason of the last failed attempt; empty: none failed.")
    delivered_at = OptionalText("When the receiver accepted it; empty: it has not.")
    failed_at = OptionalText("When the last attempt failed; empty: it has not.")
    expires_at = OptionalNumber(
        "When DynamoDB may delete it: 3 days after its delivery, 30 days after its "
        "failure."
    )

    @property
    def key(self) -> tuple[str, str]:
        """Its partition and sort key."""
        return self.item["pk"], self.item["sk"]

    @property
    def asks(self) -> dict[str, Any]:
        """The open question of which it tells; empty: it tells of none."""
        found = json.loads(self.stored_asks or "{}")
        return found if isinstance(found, dict) else {}

    def document(self, names: Any = ()) -> dict[str, Any]:
        """Return what views show; the body is parsed by programs."""
        shown = ("webhook", "event", "kind", "state", "at", "job", "attempts", "due_at")
        later = ("last_error", "delivered_at", "failed_at", "body")
        return {name: self.item.get(name) for name in (*shown, *later, *names)}


# ── the body ──────────────────────────────────────────────────────────────────


def body_of(event: WebhookEvent, form: str, environment: str) -> str:
    """Return the body of an event in one of `FORMATS`."""
    if form == "slack":
        return encode({"text": slack_text(event, environment)})
    return encode(
        {
            "id": event.id,
            "type": event.kind,
            "timestamp": event.at,
            "environment": environment,
            "tenant": event.tenant,
            "pipeline": event.pipeline,
            "job": event.job,
            "text": event.text,
            "command": event.command,
            "data": dict(event.data),
        }
    )


def with_link(body: str, url: str) -> str:
    """Return the body of an event with the link by which its question is answered."""
    document = json.loads(body)
    if "data" in document:
        document["data"]["answer_url"] = url
    else:
        document["text"] += f"\n<{url}|Answer>"
    return encode(document)


def slack_text(event: WebhookEvent, environment: str) -> str:
    """Return a message in Slack's markup; the id tells a repetition from a new one."""
    lines = [f"*{escaped(event.text)}*", f"`{escaped(event.command)}`"]
    return "\n".join([*lines, f"_{escaped(environment)} · {event.id}_"])


def escaped(text: str) -> str:
    """Return a text without Slack's control characters: no mention, no link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def encode(document: Mapping[str, Any]) -> str:
    """Return a document as JSON."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
