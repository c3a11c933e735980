"""The fleet's record of its breakers in memory; a test can make it unreachable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from piecework.calls.fleet_breaker import BreakerSnapshot
from piecework.errors import StoreError
from piecework.resilience.breaker import BreakerPhase, Heard


@dataclass
class MemoryRecord:
    """Answers as the table does."""

    clock: Callable[[], float]
    rows: dict[str, BreakerSnapshot] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    reachable: bool = True

    async def read_all(self) -> Mapping[str, BreakerSnapshot]:
        await self.reach("read_all")
        return dict(self.rows)

    async def open(
        self, name: str, gen: int, until: float, code: str
    ) -> BreakerSnapshot | None:
        await self.reach("open")
        return self.next(name, gen, BreakerSnapshot(gen + 1, BreakerPhase.OPEN, until))

    async def take_probe(
        self, name: str, gen: int, token: str, until: float
    ) -> BreakerSnapshot | None:
        await self.reach("take_probe")
        stands = self.rows.get(name, BreakerSnapshot())
        if stands.gen != gen or stands.probe_until > self.clock():
            return stands
        self.rows[name] = replace(stands, probe_until=until)
        self.tokens[name] = token
        return None

    async def release_probe(
        self, name: str, gen: int, token: str
    ) -> BreakerSnapshot | None:
        await self.reach("release_probe")
        stands = self.rows[name]
        return self.next(name, gen, replace(stands, probe_until=0.0), token)

    async def reopen(
        self, name: str, gen: int, token: str, until: float, failed_probes: int
    ) -> BreakerSnapshot | None:
        await self.reach("reopen")
        new = BreakerSnapshot(gen + 1, BreakerPhase.OPEN, until, failed_probes)
        return self.next(name, gen, new, token)

    async def close(self, name: str, gen: int, token: str) -> BreakerSnapshot | None:
        await self.reach("close")
        return self.next(name, gen, BreakerSnapshot(gen + 1), token)

    async def set_heard(
        self, name: str, gen: int, seq: int, heard: Heard
    ) -> BreakerSnapshot | None:
        await self.reach("set_heard")
        stands = self.rows.get(name, BreakerSnapshot())
        if (stands.gen, stands.heard_seq) != (gen, seq):
            return stands
        self.rows[name] = replace(stands, heard=heard, heard_seq=seq + 1)
        return None

    def next(
        self, name: str, gen: int, new: BreakerSnapshot, token: str = ""
    ) -> BreakerSnapshot | None:
        stands = self.rows.get(name, BreakerSnapshot())
        if stands.gen != gen or token != self.tokens.get(name, ""):
            return stands
        kept = {"heard": stands.heard, "heard_seq": stands.heard_seq}
        self.rows[name] = replace(new, **kept)
        self.tokens.pop(name, None)
        return None

    async def reach(self, verb: str) -> None:
        self.asked.append(verb)
        await asyncio.sleep(0)
        if not self.reachable:
            raise StoreError("The table does not answer.")
