"""The stub behind Anthropic's wire: message batches and Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.providers.stub import Asked, Made, Reply, Stub, in_lines, tokens_of

_WORDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


@dataclass
class AnthropicStub(Stub):
    """Anthropic, as far as batches and direct requests need it."""

    address: str = ""

    def serve(self, asked: Asked) -> Reply:
        match asked.method, asked.parts:
            case "POST", ["messages"]:
                body = json.loads(asked.body)
                self.bill(body, "default")
                reply = Reply(value=self._message(body, "standard"))
            case "POST", ["messages", "batches"]:
                rows = json.loads(asked.body)["requests"]
                made = self.made([(row["custom_id"], row["params"]) for row in rows])
                reply = Reply(value=self._shown(made))
            case "GET", ["messages", "batches"]:
                reply = self._list(asked.query)
            case "GET", ["messages", "batches", name]:
                reply = Reply(value=self._shown(self.batches[name]))
            case "POST", ["messages", "batches", name, "cancel"]:
                self.batches[name].cancelled_at = self.clock()
                reply = Reply(value=self._shown(self.batches[name]))
            case "GET", ["messages", "batches", name, "results"]:
                reply = self._results(self.batches[name])
            case _:
                reply = self.refusal(404)
        return reply

    def refusal(self, status: int) -> Reply:
        error = {"type": _WORDS[status], "message": "no"}
        return Reply(status, {"type": "error", "error": error})

    def _list(self, query: dict[str, str]) -> Reply:
        found = sorted(self.batches.values(), key=lambda b: b.created_at, reverse=True)
        names = [each.id for each in found]
        start = names.index(query["after_id"]) + 1 if "after_id" in query else 0
        page = found[start : start + int(query["limit"])]
        value = {
            "data": [self._shown(each) for each in page],
            "has_more": start + len(page) < len(found),
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
        }
        return Reply(value=value)

    def _shown(self, made: Made) -> dict[str, Any]:
        ended = self.ended_at(made)
        kinds = ("processing", "succeeded", "errored", "canceled", "expired")
        counts = dict.fromkeys(kinds, 0)
        if ended is None:
            counts["processing"] = len(made.rows)
        else:
            fates = list(self.fates(made).values())
            unasked = "expired" if made.cancelled_at is None else "canceled"
            counts["succeeded"] = fates.count("answered")
            counts["errored"] = fates.count("failed")
            # An absent row counts, too: the sum is that of all rows.
            counts[unasked] = fates.count("expired") + fates.count("absent")
        path = f"{self.address}/v1/messages/batches/{made.id}/results"
        has_results = ended is not None and not self.gone
        cancelled = made.cancelled_at
        return {
            "id": made.id,
            "type": "message_batch",
            "processing_status": "in_progress" if ended is None else "ended",
            "request_counts": counts,
            "created_at": _moment(made.created_at),
            "expires_at": _moment(made.created_at + 86_400),
            "ended_at": None if ended is None else _moment(ended),
            "cancel_initiated_at": None if cancelled is None else _moment(cancelled),
            "archived_at": _moment(self.clock()) if ended and self.gone else None,
            "results_url": path if has_results else None,
        }

    def _results(self, made: Made) -> Reply:
        if self.gone:
            return self.refusal(404)

        def lines() -> Iterator[bytes]:
            yield from self.more_lines
            yield from in_lines(
                {"custom_id": name, "result": self._result(made, body, fate)}
                for name, body, fate in self.outcomes(made)
            )

        return Reply(lines=lines())

    def _result(self, made: Made, body: dict[str, Any], fate: str) -> dict[str, Any]:
        if fate == "answered":
            return {"type": "succeeded", "message": self._message(body, "batch")}
        if fate == "failed":
            error = {"type": "overloaded_error", "message": "busy"}
            return {"type": "errored", "error": {"type": "error", "error": error}}
        return {"type": "expired" if made.cancelled_at is None else "canceled"}

    def _message(self, body: dict[str, Any], tier: str) -> dict[str, Any]:
        tokens_in, tokens_out = tokens_of(body)
        usage = {"input_tokens": tokens_in, "output_tokens": tokens_out}
        return {
            "id": "msg",
            "type": "message",
            "role": "assistant",
            "model": f"{body['model']}-2026",
            "content": [{"type": "text", "text": self.say(body)}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {**usage, "service_tier": tier},
        }


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
