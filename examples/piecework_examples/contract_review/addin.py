"""The client of the Word add-in: reserve a place, publish findings, notify the reader.

Every call carries its idempotency key. The service answers a known key with its first
answer. An HTTP error is raised as aiohttp raises it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientSession, ClientTimeout

from piecework_examples.contract_review.config import from_environment
from piecework_examples.contract_review.findings import Finding, Record, Severity
from piecework_examples.contract_review.resources import PerLoop


class Slot(Record):
    """A place in the reader's margin, held for a clause."""

    slot: str


class Release(Record):
    """Whether there was a slot to give back."""

    released: bool


class Publication(Record):
    """The number of comments in the margin."""

    comments: int


class Notice(Record):
    """Whether the reader was notified."""

    notified: bool


@dataclass(frozen=True, slots=True)
class Addin:
    """One session with its pool of connections."""

    session: ClientSession

    async def post(self, path: str, body: dict[str, Any], key: str) -> Any:
        """Send a command and return its answer."""
        headers = {"Idempotency-Key": key}
        async with self.session.post(path, json=body, headers=headers) as response:
            response.raise_for_status()
            return await response.json()


@asynccontextmanager
async def configured_addin() -> AsyncIterator[Addin]:
    """Open a session to the add-in that the environment names."""
    config = from_environment()
    timeout = ClientTimeout(total=config.timeout_s)
    async with ClientSession(config.addin_url, timeout=timeout) as session:
        yield Addin(session)


current: PerLoop[Addin] = PerLoop(configured_addin)


async def reserve_slot(job: str, clause: int, *, idempotency_key: str) -> Slot:
    """Hold a place for a clause."""
    addin = await current.get()
    body = {"job": job, "clause": clause}
    return Slot.model_validate(await addin.post("/slots", body, idempotency_key))


async def release_slot(job: str, clause: int, *, idempotency_key: str) -> Release:
    """Release the place; do nothing if there is none."""
    addin = await current.get()
    body = {"job": job, "clause": clause}
    answer = await addin.post("/slots/release", body, idempotency_key)
    return Release.model_validate(answer)


async def publish_findings(
    job: str, clause: int, slot: str, findings: list[Finding], *, idempotency_key: str
) -> Publication:
    """Write the findings into the margin: from here on the reader sees them."""
    addin = await current.get()
    rows = [finding.model_dump(mode="json") for finding in findings]
    body = {"job": job, "clause": clause, "slot": slot, "findings": rows}
    return Publication.model_validate(
        await addin.post("/findings", body, idempotency_key)
    )


async def notify_reader(
    job: str, clause: int, worst: Severity | None, *, idempotency_key: str
) -> Notice:
    """Tell the reader that a clause is done."""
    addin = await current.get()
    body = {"job": job, "clause": clause, "worst": worst}
    answer = await addin.post("/notifications", body, idempotency_key)
    return Notice.model_validate(answer)
