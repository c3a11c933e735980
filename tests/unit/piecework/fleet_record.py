"""The fleet's record of its breakers in memory; out of reach when it is told to be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from piecework.breaker import State
from piecework.errors import StoreError
from piecework.fleet import Standing


@dataclass
class MemoryRecord:
    """Answers as the table does."""

    clock: Callable[[], float]
    rows: dict[str, Standing] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    reachable: bool = True

    async def all(self) -> Mapping[str, Standing]:
        await self.reach("all")
        return dict(self.rows)

    async def open(
        self, name: str, gen: int, until: float, code: str
    ) -> Standing | None:
        await self.reach("open")
        return self.next(name, gen, Standing(gen + 1, State.OPEN, until))

    async def probe(
        self, name: str, gen: int, token: str, until: float
    ) -> Standing | None:
        await self.reach("probe")
        stands = self.rows.get(name, Standing())
        if stands.gen != gen or stands.probed_until > self.clock():
            return stands
        self.rows[name] = replace(stands, probed_until=until)
        self.tokens[name] = token
        return None

    async def give_back(self, name: str, gen: int, token: str) -> Standing | None:
        await self.reach("give back")
        stands = self.rows[name]
        return self.next(name, gen, replace(stands, probed_until=0.0), token)

    async def reopen(
        self, name: str, gen: int, token: str, until: float, failed_probes: int
    ) -> Standing | None:
        await self.reach("reopen")
        new = Standing(gen + 1, State.OPEN, until, failed_probes)
        return self.next(name, gen, new, token)

    async def close(self, name: str, gen: int, token: str) -> Standing | None:
        await self.reach("close")
        return self.next(name, gen, Standing(gen + 1), token)

    def next(
        self, name: str, gen: int, new: Standing, token: str = ""
    ) -> Standing | None:
        stands = self.rows.get(name, Standing())
        if stands.gen != gen or token != self.tokens.get(name, ""):
            return stands
        self.rows[name] = new
        self.tokens.pop(name, None)
        return None

    async def reach(self, verb: str) -> None:
        self.asked.append(verb)
        await asyncio.sleep(0)
        if not self.reachable:
            raise StoreError("The table does not answer.")
