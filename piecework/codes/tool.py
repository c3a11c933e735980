"""Codes of calls to services that are not models."""

from __future__ import annotations

from typing import Final

from piecework.codes.http import http_rows
from piecework.codes.row import Code, ErrorClass

ROWS: Final = (
    *http_rows("tool", who="service"),
    Code(
        "tool.output.invalid",
        ErrorClass.SEMANTIC,
        "The service answered in the right form with content that cannot be right.",
        "Read the answer's fault with `piecework dlq show JOB CHUNK`, then `piecework "
        "dlq redrive --job JOB --yes --reason …`.",
    ),
    Code(
        "tool.policy.refusal",
        ErrorClass.POLICY,
        "The service refused the request by a rule or a quota of its own.",
        "Have a person look at the chunk: `piecework dlq show JOB CHUNK`.",
    ),
)
