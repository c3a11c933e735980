"""Read what a program passes to a client: rows, deadlines, timeouts."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from piecework.domain.budget import Cap, parse_cap
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.keys import TENANT_LIMIT, is_name
from piecework.domain.moments import iso
from piecework.domain.spans import is_span
from piecework.errors import UsageError
from piecework.pipelines import Pipeline
from piecework.resilience.limits import Limits
from piecework.runtime import Runtime
from piecework_orchestrator.reading.times import (
    parse_deadline,
    parse_span,
    require_future,
)
from piecework_orchestrator.submit.intake.limits import printable_name
from piecework_orchestrator.submit.intake.refusals import Refusals
from piecework_orchestrator.submit.intake.rows import row_chunks
from piecework_orchestrator.submit.intake.source import chunk_inputs

P = TypeVar("P", bound=BaseModel)

#: Payloads, or mappings of their fields; or a path or an address as `piecework submit`
#: reads it.
Rows = (
    Iterable[P | Mapping[str, Any]] | AsyncIterable[P | Mapping[str, Any]] | str | Path
)
#: A time, a span from now, or either one as text: `2h`, `2026-11-22T18:00:00Z`.
Deadline = datetime | timedelta | str
#: Seconds, or a span as text: `90s`, `15m`.
Timeout = float | timedelta | str


def epoch_of(deadline: object, now: float) -> float | None:
    """Return a deadline in epoch seconds; None: none was given.

    Raises:
        UsageError: `cli.usage.invalid`: it is not a time with a zone, has passed, or is
            after the year 9999.
    """
    match deadline:
        case None:
            return None
        case timedelta():
            return require_future(now + deadline.total_seconds(), f"{deadline}", now)
        case datetime():
            if deadline.tzinfo is None:
                message = f"The deadline {deadline} has no time zone."
                raise UsageError(message, next_step="Pass a datetime with a tzinfo.")
            return require_future(deadline.timestamp(), f"{deadline}", now)
        case str():
            return parse_deadline(deadline, now)
        case _:
            message = f"The deadline {deadline!r} is not a time."
            step = 'Pass a text such as "2h", a timedelta, or a datetime with a zone.'
            raise UsageError(message, next_step=step)


def requested_text(deadline: object, until: float | None) -> str:
    """Return a deadline in a form that is equal in a repeated submit; empty: none.

    A span is repeated as it was, although it ends at a later time.
    """
    if until is None:
        return ""
    if isinstance(deadline, timedelta):
        return f"{deadline.total_seconds():g}s"
    if isinstance(deadline, str) and is_span(deadline):
        return f"{parse_span(deadline):g}s"
    return iso(until)


def seconds_of(timeout: object) -> float | None:
    """Return a timeout in seconds; None: none was given.

    Raises:
        UsageError: `cli.usage.invalid`: it is not a span of time, or it is negative.
    """
    match timeout:
        case None:
            return None
        case str():
            return parse_span(timeout)
        case timedelta():
            seconds = timeout.total_seconds()
        case int() | float() if not isinstance(timeout, bool):
            seconds = float(timeout)
        case _:
            seconds = -1.0
    if seconds >= 0:  # false for NaN
        return seconds
    message = f"The timeout {timeout!r} is not a span of time."
    step = 'Pass seconds, a text such as "10s", or a timedelta.'
    raise UsageError(message, next_step=step)


def read_rows(
    rt: Runtime, pipeline: Pipeline, rows: Rows[Any], refusals: Refusals
) -> tuple[AsyncIterator[ChunkInput], str]:
    """Return the chunks of any source, and the origin for the record.

    Raises:
        UsageError: `cli.usage.invalid`: one row in place of an iterable.
    """
    if isinstance(rows, str | Path):
        source = str(rows)
        name = "standard input" if source == "-" else printable_name(source)
        s3 = rt.objects.client
        chunks = chunk_inputs(source, pipeline, s3=s3, refusals=refusals)
        return chunks, name
    if isinstance(rows, Mapping | BaseModel) or not isinstance(
        rows, Iterable | AsyncIterable
    ):
        message = f"A {type(rows).__name__} is not a list of rows."
        raise UsageError(message, next_step="Pass a list, even for one row: `[row]`.")
    return row_chunks(rows, pipeline, refusals=refusals), "a program"


def require_limit_of(name: str, limits: Limits) -> None:
    """Raise for a name that has no limits, and for limits that a tenant cannot have.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if not name.casefold().startswith(TENANT_LIMIT):
        require_dependency(name)
        if limits.contradiction:
            step = f"piecework limits set {name} --requests-per-second 10"
            raise UsageError(f"{limits.contradiction}.", next_step=step)
        return
    tenant = name.removeprefix(TENANT_LIMIT)
    step = f"piecework limits set {TENANT_LIMIT}NAME --concurrent N"
    require_tenant(tenant, step)
    if limits.requests_a_minute or limits.tokens_per_minute:
        message = "The cap of a tenant is a number of chunks that run at once."
        raise UsageError(message, next_step=step)


def require_cap(usd: object, tokens: object) -> Cap:
    """Return the new budget of a job.

    Raises:
        UsageError: `submit.budget.invalid`; `cli.usage.invalid`: none was given.
    """
    cap = parse_cap(usd, tokens)
    if not cap:
        step = "Pass `--budget-usd` or `--budget-tokens`; in Python usd= or tokens=."
        raise UsageError("No budget was given.", next_step=step)
    return cap


def require_tenant(tenant: str, next_step: str = "piecework budgets list") -> None:
    """Raise for a text that names no tenant.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if not is_name(tenant):
        message = f"{tenant[:64]!r} is not the name of a tenant."
        raise UsageError(message, next_step=next_step)


def require_dependency(name: str) -> None:
    """Raise for a name that no dependency has.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if name.casefold().startswith(TENANT_LIMIT):
        message = f"{name[:64]} is the cap of a tenant: only dependencies are paused."
        step = "piecework pipelines pause PIPELINE --tenant NAME"
        raise UsageError(message, next_step=step)
    if not name.strip():
        message = "The name of a dependency is not empty."
        raise UsageError(message, next_step="piecework limits list")
