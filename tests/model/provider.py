"""The provider outside: what it carries out, and what must not stand there."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.state import Chunk, Config, Effect


def carried_out(cfg: Config, row: Effect, epoch: int) -> tuple[Effect, str]:
    """What the provider does with a request: nothing, if it knows the key."""
    bit = 1 << epoch
    if row.keys & bit and cfg.has("provider key"):
        return row._replace(flying=0), ""
    broken = "an effect happens once an epoch" if row.keys & bit else ""
    if row.stands:
        broken = broken or "an effect stands once"
    elif row.undone >= epoch or row.undo_keys >> epoch:
        broken = broken or "what was undone stays undone"
    stands = min(row.stands + 1, 2)
    return row._replace(keys=row.keys | bit, stands=stands, flying=0), broken


def lands(cfg: Config, c: Chunk) -> Iterator[tuple[str, Chunk, None, bool, str]]:
    """Carry out what is on its way, however long after it was sent."""
    for at, row in enumerate(c.effects):
        if row.flying:
            done, broken = carried_out(cfg, row, row.flying)
            effects = (*c.effects[:at], done, *c.effects[at + 1 :])
            chunk = c._replace(effects=effects)
            yield (
                f"provider gets the request of stage {at} of",
                chunk,
                None,
                False,
                broken,
            )


def left_standing(c: Chunk, *, undoes: bool) -> str:
    """What is wrong if a chunk is let go as CANCELLED by a cancel that undoes."""
    stands = any(row.stands or row.flying for row in c.effects)
    return "what a cancel winds back does not stand" if undoes and stands else ""
