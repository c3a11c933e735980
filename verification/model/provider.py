"""Model the provider: executed requests, and effects that must not remain."""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.state import Chunk, Config, Effect


def execute_request(cfg: Config, row: Effect, epoch: int) -> tuple[Effect, str]:
    """Execute a request, unless the provider knows its key."""
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
    """Execute a request in transit, at any time after it was sent."""
    for at, row in enumerate(c.effects):
        if row.flying:
            done, broken = execute_request(cfg, row, row.flying)
            effects = (*c.effects[:at], done, *c.effects[at + 1 :])
            chunk = c._replace(effects=effects)
            yield (
                f"provider gets the request of stage {at} of",
                chunk,
                None,
                False,
                broken,
            )


def leftover_effects(c: Chunk, *, undoes: bool) -> str:
    """Return what is wrong if a compensating cancel leaves effects."""
    stands = any(row.stands or row.flying for row in c.effects)
    return "what a cancel winds back does not stand" if undoes and stands else ""
