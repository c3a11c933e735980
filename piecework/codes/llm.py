"""Codes of calls to models."""

from __future__ import annotations

from typing import Final

from piecework.codes.http import http_rows
from piecework.codes.row import Code, ErrorClass

ROWS: Final = (
    *http_rows("llm", service="model provider"),
    Code(
        "llm.context.overflow",
        ErrorClass.PERMANENT,
        "The prompt is longer than the model's context.",
        "Split the input into smaller chunks and submit it again.",
    ),
    Code(
        "llm.model.failed",
        ErrorClass.TRANSIENT,
        "The model failed while it processed the request.",
        "Wait: the call is retried. If the error persists, use another model.",
    ),
    Code(
        "llm.model.not_ready",
        ErrorClass.TRANSIENT,
        "The model is still loading.",
        "Wait: the call is retried until the model is ready.",
    ),
    Code(
        "llm.output.invalid",
        ErrorClass.SEMANTIC,
        "The model's answer does not have the content that the stage requires.",
        "Read the error with `piecework dlq show JOB CHUNK`, change the prompt, "
        "then run `piecework dlq redrive --job JOB --yes --reason …`.",
    ),
    Code(
        "llm.output.truncated",
        ErrorClass.SEMANTIC,
        "The model's answer reached the limit of output tokens and was cut off.",
        "Request less in one call or allow more tokens, then run `piecework dlq "
        "redrive --job JOB --yes --reason …`.",
    ),
    Code(
        "llm.policy.content_filtered",
        ErrorClass.POLICY,
        "A content filter of the provider stopped the prompt or the answer.",
        "Review the chunk with `piecework dlq show JOB CHUNK`.",
    ),
    Code(
        "llm.policy.quota_exceeded",
        ErrorClass.POLICY,
        "The account has used up its quota for this model.",
        "Raise the quota or use another model, then run `piecework dlq redrive "
        "--job JOB --yes --reason …`.",
    ),
    Code(
        "llm.policy.refusal",
        ErrorClass.POLICY,
        "The model refused to process this input.",
        "Review the chunk with `piecework dlq show JOB CHUNK`.",
    ),
)
