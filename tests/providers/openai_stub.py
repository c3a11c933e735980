"""The stub behind OpenAI's wire: files, batches and Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.parser import BytesParser
from typing import Any

from tests.providers.stub import Asked, Made, Reply, Stub, in_lines, tokens_of


@dataclass
class OpenAIStub(Stub):
    """OpenAI, as far as batches and direct requests need it."""

    files: dict[str, bytes] = field(default_factory=dict)

    def serve(self, asked: Asked) -> Reply:
        match asked.method, asked.parts:
            case "POST", ["files"]:
                reply = self._upload(asked)
            case "GET", ["files", name, "content"]:
                reply = self._content(name)
            case "POST", ["batches"]:
                reply = self._create(json.loads(asked.body))
            case "GET", ["batches"]:
                reply = self._list(asked.query)
            case "GET", ["batches", name]:
                reply = Reply(value=self._shown(self.batches[name]))
            case "POST", ["batches", name, "cancel"]:
                made = self.batches[name]
                made.cancelled_at = self.clock()
                reply = Reply(value=self._shown(made))
            case "POST", ["chat", "completions"]:
                body = json.loads(asked.body)
                self.bill(body, "default")
                reply = Reply(value=self._chat(body, "default"))
            case _:
                reply = self.refusal(404)
        return reply

    def refusal(self, status: int) -> Reply:
        code = {401: "invalid_api_key", 404: "not_found"}.get(status)
        error = {"message": "no", "type": "invalid_request_error", "code": code}
        return Reply(status, {"error": {**error, "param": None}})

    def _upload(self, asked: Asked) -> Reply:
        kind = asked.headers["content-type"]
        whole = BytesParser().parsebytes(
            f"Content-Type: {kind}\r\n\r\n".encode() + asked.body
        )
        found: dict[str, bytes] = {}
        for each in whole.get_payload():  # type: ignore[union-attr]
            name = each.get_param("name", header="content-disposition")  # type: ignore[union-attr]
            found[str(name)] = each.get_payload(decode=True)
        assert found["purpose"] == b"batch"
        file_id = f"file_{len(self.files)}"
        self.files[file_id] = found["file"]
        return Reply(value={"id": file_id, "object": "file", "purpose": "batch"})

    def _create(self, body: dict[str, Any]) -> Reply:
        lines = self.files[body["input_file_id"]]
        rows = [json.loads(each) for each in lines.splitlines()]
        assert {row["method"] for row in rows} == {"POST"}
        assert {row["url"] for row in rows} == {body["endpoint"]}
        assert len({row["body"]["model"] for row in rows}) == 1
        made = self.made(
            [(row["custom_id"], row["body"]) for row in rows],
            digest=body["metadata"]["piecework"],
            input_id=body["input_file_id"],
        )
        return Reply(value=self._shown(made))

    def _list(self, query: dict[str, str]) -> Reply:
        found = sorted(self.batches.values(), key=lambda b: b.created_at, reverse=True)
        names = [each.id for each in found]
        start = names.index(query["after"]) + 1 if "after" in query else 0
        page = found[start : start + int(query["limit"])]
        value = {
            "object": "list",
            "data": [self._shown(each) for each in page],
            "has_more": start + len(page) < len(found),
        }
        return Reply(value=value)

    def _shown(self, made: Made) -> dict[str, Any]:
        ended = self.ended_at(made)
        state, at, more = "in_progress", "in_progress_at", dict[str, Any]()
        counts = {"total": len(made.rows), "completed": 0, "failed": 0}
        if ended is not None and self.is_refused(made):
            state, at, counts = "failed", "failed_at", counts | {"total": 0}
            more["errors"] = {"object": "list", "data": self._errors(made)}
        elif ended is not None:
            fates = list(self.fates(made).values())
            counts["completed"] = fates.count("answered")
            counts["failed"] = fates.count("failed")
            state = "expired" if self.takes_s > self.expires_s else "completed"
            state = "cancelled" if made.cancelled_at is not None else state
            at = f"{state}_at"
            if counts["completed"] or self.more_lines:
                more["output_file_id"] = f"out-{made.id}"
            if len({*fates} & {"failed", "expired"}):
                more["error_file_id"] = f"err-{made.id}"
        return {
            "id": made.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "input_file_id": made.input_id,
            "status": state,
            "created_at": int(made.created_at),
            "metadata": {"piecework": made.digest},
            "request_counts": counts,
            at: int(self.clock() if ended is None else ended),
            **more,
        }

    def _errors(self, made: Made) -> list[dict[str, Any]]:
        if self.queue_full:
            return [{"code": "token_limit_exceeded", "message": "full", "line": None}]
        return [
            {"code": "invalid_request", "message": "no", "line": n, "param": "body"}
            for n, (name, _) in enumerate(made.rows, 1)
            if self.refuses(name)
        ]

    def _content(self, name: str) -> Reply:
        if name in self.files:
            return Reply(lines=iter([self.files[name]]))
        kind, _, batch_id = name.partition("-")
        if self.gone:
            return self.refusal(404)
        made = self.batches[batch_id]
        if kind == "err":
            return Reply(lines=in_lines(self._failures(made)))
        return Reply(lines=self._output(made))

    def _output(self, made: Made) -> Iterator[bytes]:
        yield from self.more_lines
        yield from in_lines(
            {
                "id": f"req-{name}",
                "custom_id": name,
                "response": {"status_code": 200, "body": self._chat(body, "default")},
                "error": None,
            }
            for name, body, fate in self.outcomes(made)
            if fate == "answered"
        )

    def _failures(self, made: Made) -> Iterator[dict[str, Any]]:
        for name, _, fate in self.outcomes(made):
            row: dict[str, Any] = {"id": f"req-{name}", "custom_id": name}
            if fate == "expired":
                word = (
                    "batch_expired" if made.cancelled_at is None else "batch_cancelled"
                )
                error = {"code": word, "message": "not asked"}
                yield {**row, "response": None, "error": error}
            elif fate == "failed":
                said = {"message": "too long", "type": "invalid_request_error"}
                said |= {"param": "messages", "code": "context_length_exceeded"}
                response = {"status_code": 400, "body": {"error": said}}
                yield {**row, "response": response, "error": None}

    def _chat(self, body: dict[str, Any], tier: str) -> dict[str, Any]:
        tokens_in, tokens_out = tokens_of(body)
        message = {"role": "assistant", "content": self.say(body), "refusal": None}
        return {
            "id": "chat",
            "object": "chat.completion",
            "created": 1,
            "model": f"{body['model']}-2026",
            "service_tier": tier,
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {
                "prompt_tokens": tokens_in,
                "completion_tokens": tokens_out,
                "total_tokens": tokens_in + tokens_out,
            },
        }
