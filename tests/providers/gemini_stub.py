"""The stub behind Gemini's wire: files, batches and generateContent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.providers.stub import Asked, Made, Reply, Stub, in_lines, tokens_of

_WORDS = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}


@dataclass
class GeminiStub(Stub):
    """Gemini, as far as batches and direct requests need it."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)

    def serve(self, asked: Asked) -> Reply:
        match asked.method, asked.parts:
            case "POST", ["upload", "files"]:
                url = f"{self.address}/upload/v1beta/files/{len(self.files)}"
                reply = Reply(value={}, headers={"x-goog-upload-url": url})
            case "POST", ["upload", "files", number]:
                self.files[number] = asked.body
                value = {"file": {"name": f"files/{number}"}}
                status = {"x-goog-upload-status": "final"}
                reply = Reply(value=value, headers=status)
            case "POST", ["models", method]:
                reply = self._model(method.partition(":")[2], json.loads(asked.body))
            case "GET", ["batches"]:
                reply = self._list(asked.query)
            case "GET", ["batches", name]:
                reply = Reply(value=self._shown(self.batches[name]))
            case "POST", ["batches", method]:
                name, _, verb = method.partition(":")
                assert verb == "cancel"
                self.batches[name].cancelled_at = self.clock()
                reply = Reply(value={})
            case "GET", ["files", method]:
                made = self.batches[method.removesuffix(":download")]
                refused = self.refusal(404)
                reply = refused if self.gone else Reply(lines=self._output(made))
            case _:
                reply = self.refusal(404)
        return reply

    def refusal(self, status: int) -> Reply:
        error = {"code": status, "message": "no", "status": _WORDS[status]}
        return Reply(status, {"error": error})

    def _model(self, method: str, body: dict[str, Any]) -> Reply:
        if method == "generateContent":
            self.bill(body, "default")
            return Reply(value=self._content(body))
        assert method == "batchGenerateContent"
        number = body["batch"]["inputConfig"]["fileName"].removeprefix("files/")
        rows = [json.loads(each) for each in self.files[number].splitlines()]
        digest = body["batch"]["displayName"]
        made = self.made([(row["key"], row["request"]) for row in rows], digest=digest)
        return Reply(value=self._shown(made))

    def _list(self, query: dict[str, str]) -> Reply:
        found = sorted(self.batches.values(), key=lambda b: b.created_at, reverse=True)
        start, size = int(query.get("pageToken", 0)), int(query["pageSize"])
        page = found[start : start + size]
        value: dict[str, Any] = {"operations": [self._shown(each) for each in page]}
        if start + size < len(found):
            value["nextPageToken"] = str(start + size)
        return Reply(value=value)

    def _shown(self, made: Made) -> dict[str, Any]:
        ended, state, more = self.ended_at(made), "RUNNING", dict[str, Any]()
        if ended is not None:
            more["endTime"] = _moment(ended)
            state = "EXPIRED" if self.takes_s > self.expires_s else "SUCCEEDED"
            state = "CANCELLED" if made.cancelled_at is not None else state
            if self.is_refused(made):
                state = "FAILED"
            else:
                self.fates(made)
                more["output"] = {"responsesFile": f"files/{made.id}"}
        metadata = {
            "state": f"BATCH_STATE_{state}",
            "displayName": made.digest,
            "createTime": _moment(made.created_at),
            "updateTime": _moment(made.created_at),
            **more,
        }
        return {"name": f"batches/{made.id}", "metadata": metadata}

    def _output(self, made: Made) -> Iterator[bytes]:
        yield from self.more_lines
        yield from in_lines(
            {"key": name, **self._ended(body, fate)}
            for name, body, fate in self.outcomes(made)
            if fate != "expired"  # it says nothing of a row that was not asked
        )

    def _ended(self, body: dict[str, Any], fate: str) -> dict[str, Any]:
        if fate == "answered":
            return {"response": self._content(body)}
        return {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}

    def _content(self, body: dict[str, Any]) -> dict[str, Any]:
        tokens_in, tokens_out = tokens_of(body)
        parts = [{"text": "hm", "thought": True}, {"text": self.say(body)}]
        candidate = {"content": {"parts": parts, "role": "model"}}
        return {
            "candidates": [{**candidate, "finishReason": "STOP", "index": 0}],
            "modelVersion": "m-2026",
            "usageMetadata": {
                "promptTokenCount": tokens_in,
                "candidatesTokenCount": tokens_out - 4,
                "thoughtsTokenCount": 4,
                "totalTokenCount": tokens_in + tokens_out,
            },
        }


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
