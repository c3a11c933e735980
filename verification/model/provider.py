"""Model the provider: executed requests, and effects that must not remain."""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.state import Chunk, Config, Effect


def execute_request(cfg: Config, row: Effect, key_gen: int) -> tuple[Effect, str]:
    """Execute a request, unless the provider knows its key."""
    bit = 1 << key_gen
    if row.keys & bit and cfg.has("provider key"):
        return row._replace(in_flight=0), ""
    broken = "no effect happens twice in a generation" if row.keys & bit else ""
    if row.present:
        broken = broken or "no effect is present twice"
    elif row.compensated >= key_gen or row.compensation_keys >> key_gen:
        broken = broken or "a compensated effect does not return"
    present = min(row.present + 1, 2)
    return row._replace(keys=row.keys | bit, present=present, in_flight=0), broken


def execute_in_flight(
    cfg: Config, c: Chunk
) -> Iterator[tuple[str, Chunk, None, bool, str]]:
    """Execute an in-flight request at any time after it was sent."""
    for at, row in enumerate(c.effects):
        if row.in_flight:
            done, broken = execute_request(cfg, row, row.in_flight)
            effects = (*c.effects[:at], done, *c.effects[at + 1 :])
            chunk = c._replace(effects=effects)
            label = f"provider executes the request of stage {at} of"
            yield label, chunk, None, False, broken


def leftover_effects(c: Chunk, *, compensates: bool) -> str:
    """Return what is wrong if a compensating cancel leaves effects."""
    present = any(row.present or row.in_flight for row in c.effects)
    return "a compensating cancel leaves no effect" if compensates and present else ""
