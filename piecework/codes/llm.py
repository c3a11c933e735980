"""Codes of calls to models."""

from __future__ import annotations

from typing import Final

from piecework.codes.http import http_rows
from piecework.codes.row import Code, ErrorClass

ROWS: Final = (
    *http_rows("llm", who="model provider"),
    Code(
        "llm.context.overflow",
        ErrorClass.PERMANENT,
        "The prompt is longer than the model's context.",
        "Split the input into smaller chunks and submit it again.",
    ),
    Code(
        "llm.model.failed",
        ErrorClass.TRANSIENT,
        "The model itself failed while it worked on the request.",
        "Nothing at first: it is retried; if it stays, try another model.",
    ),
    Code(
        "llm.model.not_ready",
        ErrorClass.TRANSIENT,
        "The model is still being loaded.",
        "Nothing: it is retried until the model is there.",
    ),
    Code(
        "llm.output.invalid",
        ErrorClass.SEMANTIC,
        "The model answered, but not with what the stage asked for.",
        "Read the answer's fault with `piecework dlq show JOB CHUNK`, change the "
        "prompt, then `piecework dlq redrive --job JOB --yes --reason …`.",
    ),
    Code(
        "llm.output.truncated",
        ErrorClass.SEMANTIC,
        "The model's answer was cut off at the most tokens that it may give.",
        "Ask for less at once or allow more tokens, then `piecework dlq redrive --job "
        "JOB --yes --reason …`.",
    ),
    Code(
        "llm.policy.content_filtered",
        ErrorClass.POLICY,
        "A content filter of the provider stopped the prompt or the answer.",
        "Have a person look at the chunk: `piecework dlq show JOB CHUNK`.",
    ),
    Code(
        "llm.policy.quota_exceeded",
        ErrorClass.POLICY,
        "The account has used its quota of this model.",
        "Have the quota raised or use another model, then `piecework dlq redrive "
        "--job JOB --yes --reason …`.",
    ),
    Code(
        "llm.policy.refusal",
        ErrorClass.POLICY,
        "The model refused to work on this input.",
        "Have a person look at the chunk: `piecework dlq show JOB CHUNK`.",
    ),
)
