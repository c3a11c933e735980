"""The stub behind Bedrock's wire: jobs over files in S3, and Converse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.providers.stub import Asked, Made, Reply, Stub, in_lines, tokens_of

_ARN = "arn:aws:bedrock:eu-west-1:123456789012:model-invocation-job/"
_WORDS = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
}


@dataclass
class BedrockStub(Stub):
    """Bedrock and S3, as far as batches and direct requests need them."""

    objects: dict[str, bytes] = field(default_factory=dict)

    def serve(self, asked: Asked) -> Reply:
        match asked.method, asked.parts:
            case "PUT", ["bucket", *name]:
                self.objects["/".join(name)] = plain(asked)
                reply = Reply(lines=iter(()))
            case "GET", ["bucket", *name]:
                reply = self._object(name)
            case "POST", ["model-invocation-job"]:
                reply = self._create(json.loads(asked.body))
            case "GET", ["model-invocation-jobs"]:
                reply = self._list(asked.query)
            case "GET", ["model-invocation-job", *arn]:
                reply = Reply(value=self._shown(self.batches[arn[-1]]))
            case "POST", ["model-invocation-job", *arn, "stop"]:
                self.batches[arn[-1]].cancelled_at = self.clock()
                reply = Reply(value={})
            case "POST", ["model", _, "converse"]:
                body = json.loads(asked.body)
                self.bill(body, "default")
                reply = Reply(value=self._converse(body))
            case _:
                reply = self.refusal(404)
        return reply

    def refusal(self, status: int) -> Reply:
        return Reply(status, {"message": "no", "__type": _WORDS[status]})

    def _create(self, body: dict[str, Any]) -> Reply:
        assert body["modelInvocationType"] == "Converse"
        for made in self.batches.values():
            if made.digest == body["clientRequestToken"]:
                return Reply(value={"jobArn": _ARN + made.id})
        uri = body["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]
        lines = self.objects[uri.removeprefix("s3://bucket/")]
        rows = [json.loads(each) for each in lines.splitlines()]
        made = self.made(
            [(row["recordId"], row["modelInput"]) for row in rows],
            digest=body["clientRequestToken"],
            input_id=body["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"],
        )
        return Reply(value={"jobArn": _ARN + made.id})

    def _list(self, query: dict[str, str]) -> Reply:
        since = datetime.fromisoformat(query["submitTimeAfter"]).timestamp()
        found = [
            self._shown(each)
            for each in self.batches.values()
            if query["nameContains"] in f"piecework-{each.digest}"
            and each.created_at > since
        ]
        start = int(query.get("nextToken", 0))
        value: dict[str, Any] = {"invocationJobSummaries": found[start : start + 1]}
        if start + 1 < len(found):
            value["nextToken"] = str(start + 1)
        return Reply(value=value)

    def _shown(self, made: Made) -> dict[str, Any]:
        ended, more = self.ended_at(made), dict[str, Any]()
        state = "InProgress"
        if ended is not None and self.is_refused(made):
            state, more["message"] = "Failed", "The file has a row that is no request."
        elif ended is not None:
            fates = list(self.fates(made).values())
            state = "Expired" if self.takes_s > self.expires_s else "Completed"
            state = "Stopped" if made.cancelled_at is not None else state
            more["totalRecordCount"] = len(fates)
            more["successRecordCount"] = fates.count("answered")
            more["errorRecordCount"] = fates.count("failed")
        if ended is not None:
            more["endTime"] = _moment(ended)
        return {
            "jobArn": _ARN + made.id,
            "jobName": f"piecework-{made.digest}",
            "modelId": "m",
            "status": state,
            "submitTime": _moment(made.created_at),
            "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": made.input_id}},
            **more,
        }

    def _object(self, name: list[str]) -> Reply:
        if "/".join(name) in self.objects:
            return Reply(lines=iter([self.objects["/".join(name)]]))
        made = self.batches.get(name[-2])
        if made is None or self.gone:
            code = b"<Error><Code>NoSuchKey</Code><Message>no</Message></Error>"
            return Reply(404, lines=iter([code]))
        return Reply(lines=self._output(made))

    def _output(self, made: Made) -> Iterator[bytes]:
        yield from self.more_lines
        yield from in_lines(
            {"recordId": name, "modelInput": body, **self._ended(body, fate)}
            for name, body, fate in self.outcomes(made)
        )

    def _ended(self, body: dict[str, Any], fate: str) -> dict[str, Any]:
        if fate == "answered":
            return {"modelOutput": self._converse(body)}
        is_late = fate == "expired"
        error = {"errorCode": 400, "errorMessage": "no", "expired": is_late}
        return {"error": {**error, "retryable": is_late}}

    def _converse(self, body: dict[str, Any]) -> dict[str, Any]:
        tokens_in, tokens_out = tokens_of(body)
        message = {"role": "assistant", "content": [{"text": self.say(body)}]}
        return {
            "output": {"message": message},
            "stopReason": "end_turn",
            "metrics": {"latencyMs": 1},
            "usage": {
                "inputTokens": tokens_in,
                "outputTokens": tokens_out,
                "totalTokens": tokens_in + tokens_out,
            },
        }


def plain(asked: Asked) -> bytes:
    """Return the content of a PUT, which the SDK may send in signed parts."""
    if "aws-chunked" not in asked.headers.get("content-encoding", ""):
        return asked.body
    content, rest = b"", asked.body
    while True:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        if not length:
            return content
        content, rest = content + rest[:length], rest[length + 2 :]


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
