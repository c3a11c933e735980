"""Codes of calls to services that are not models."""

from __future__ import annotations

from typing import Final

from piecework.codes.http import http_rows
from piecework.codes.row import Code, ErrorClass

ROWS: Final = (
    *http_rows("tool", service="service"),
    Code(
        "tool.output.invalid",
        ErrorClass.SEMANTIC,
        "The service's answer has the right form and invalid content.",
        "Read the error with `piecework dlq show JOB CHUNK`, then run `piecework "
        "dlq redrive --job JOB --yes --reason …`.",
    ),
    Code(
        "tool.policy.refusal",
        ErrorClass.POLICY,
        "The service refused the request by a rule or a quota of its own.",
        "Review the chunk with `piecework dlq show JOB CHUNK`.",
    ),
)
