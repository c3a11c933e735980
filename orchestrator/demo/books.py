"""The services' own books: what the model and the add-in say was asked of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientError, ClientSession

from orchestrator.demo.failure import StoryError


@dataclass(frozen=True, slots=True)
class Model:
    """What the model counted.

    Attributes:
        made: Calls, tries that failed included.
        answered: Different requests that it answered.
        answered_twice: Requests that it answered more than once: paid twice.
    """

    made: int
    answered: int
    answered_twice: int


@dataclass(frozen=True, slots=True)
class Addin:
    """What took effect at the add-in, for one job."""

    effects: Counter[str]
    duplicates: int
    slots_open: int


@dataclass(frozen=True, slots=True)
class Books:
    """Reads both, over HTTP; a StoryError when they do not answer."""

    http: ClientSession
    urls: dict[str, str]

    async def model(self) -> Model:
        """Read the model's counts."""
        said = await self._get(self.urls["stats"])
        return Model(said["calls"], said["answered"], said["answered_twice"])

    async def addin(self, job: str) -> Addin:
        """Read the add-in's ledger of a job."""
        said = await self._get(self.urls["ledger"], job=job)
        return Addin(
            Counter(said["effects"]),
            said["duplicate_effects"],
            len(said["slots_open"]),
        )

    async def _get(self, url: str, **query: str) -> Any:
        try:
            async with self.http.get(url, params=query) as response:
                response.raise_for_status()
                return await response.json()
        except ClientError as error:
            message = f"{url} does not answer: {type(error).__name__}"
            raise StoryError(message) from error
