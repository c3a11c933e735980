"""Read the services' own ledgers: the requests that model and add-in received."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientError, ClientSession

from orchestrator.demo.failure import DemoError


@dataclass(frozen=True, slots=True)
class ModelStats:
    """Counts of the model.

    Attributes:
        made: Calls, including failed attempts.
        answered: Different requests that it answered.
        answered_twice: Requests that it answered more than once, so paid twice.
    """

    made: int
    answered: int
    answered_twice: int


@dataclass(frozen=True, slots=True)
class AddinStats:
    """Effects at the add-in for one job."""

    effects: Counter[str]
    duplicates: int
    slots_open: int


@dataclass(frozen=True, slots=True)
class ServiceLedgers:
    """Reads both ledgers over HTTP; raises DemoError if a service does not respond."""

    http: ClientSession
    urls: dict[str, str]

    async def model(self) -> ModelStats:
        """Read the model's counts."""
        reply = await self._get(self.urls["stats"])
        return ModelStats(reply["calls"], reply["answered"], reply["answered_twice"])

    async def addin(self, job: str) -> AddinStats:
        """Read the add-in's ledger of a job."""
        reply = await self._get(self.urls["ledger"], job=job)
        return AddinStats(
            Counter(reply["effects"]),
            reply["duplicate_effects"],
            len(reply["slots_open"]),
        )

    async def _get(self, url: str, **query: str) -> Any:
        try:
            async with self.http.get(url, params=query) as response:
                response.raise_for_status()
                return await response.json()
        except ClientError as error:
            message = f"{url} does not respond: {type(error).__name__}"
            raise DemoError(message) from error
