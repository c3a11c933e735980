"""If a breaker's row is corrupt, each process keeps its own breaker."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.resilience.breaker import BreakerPhase
from piecework.store.breakers import Breakers
from piecework.store.table import Refused
from tests.unit.piecework.calls.test_fleet_breaker import MODEL, World, fails, refused

SPOILT = {"sk": "model", "v": 1, "gen": "seven", "breaker_state": "OPEN?"}


class SpoiltTable:
    """Refuses each write, and shows what stands there."""

    rng = Random(1)

    def item_write(self, *_: Any, **__: Any) -> None: ...

    async def update(self, *_: Any, **__: Any) -> Any:
        return Refused(dict(SPOILT))

    async def transact(self, *_: Any, **__: Any) -> Any:
        return Refused(dict(SPOILT))

    async def query(self, _: str) -> Any:
        yield dict(SPOILT)


@pytest.mark.parametrize("looks", [1, 3])
async def test_with_a_corrupt_row_a_process_keeps_its_breaker(
    looks: int,
) -> None:
    world = World()
    process: BreakerRegistry = world.process()
    table: Any = SpoiltTable()
    process.record = Breakers(table, "worker", world.clock)
    await fails(process, 2)
    for _ in range(looks):
        await process.sync()

    assert BreakerPhase.OPEN == process.by_name[MODEL.name].state.phase
    assert 0 < await refused(process)


async def test_a_corrupt_row_is_not_among_the_breakers() -> None:
    table: Any = SpoiltTable()
    found: Mapping[str, Any] = await Breakers(table, "worker", lambda: 0.0).read_all()

    assert {} == found
