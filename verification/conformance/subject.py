"""Define a subject: three clients, and names unique to one probe."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4


@dataclass(slots=True)
class Subject:
    """One of those that answer, with names that no other probe has.

    Attributes:
        name: model, ministack, moto or endpoint.
        dynamodb: A client, or what looks like one.
        sqs: As `dynamodb`.
        s3: As `dynamodb`.
        table: A table with the keys `pk` and `sk`; there for probes of DynamoDB.
        bucket: A bucket; there for probes of S3.
    """

    name: str
    dynamodb: Any
    sqs: Any
    s3: Any
    table: str = field(default_factory=lambda: fresh("table"))
    bucket: str = field(default_factory=lambda: fresh("bucket"))

    async def queue(
        self, *, redrive: tuple[str, int] | None = None, **attributes: str
    ) -> str:
        """Make a queue and return its URL.

        Args:
            redrive: The URL of its dead-letter queue, and how many receives.
            attributes: As AWS names them: `VisibilityTimeout="2"`.
        """
        raise NotImplementedError

    async def pass_time(self, seconds: float) -> None:
        """Let time pass; the model does not wait."""
        raise NotImplementedError


def fresh(what: str) -> str:
    """Return an unused name; who removes what is left gives it a beginning."""
    prefix = os.environ.get("PIECEWORK_CONFORMANCE_PREFIX", "conformance-")
    return f"{prefix}{what}-{uuid4().hex[:12]}"
