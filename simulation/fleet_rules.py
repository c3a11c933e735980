"""Check the writes to the row of a fleet-wide circuit breaker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Item = dict[str, Any]


def breaker_violations(old: Item | None, new: Item) -> Iterator[str]:
    """Yield the rules that a write to a breaker's row violates, as sentence endings."""
    was, now = (old or {}).get("breaker_state", "closed"), new["breaker_state"]
    gen, next_gen = (old or {}).get("gen", 0), new["gen"]
    probed = "probe_token" in (old or {})
    if next_gen not in {gen, gen + 1}:
        yield f"moved from generation {gen} to {next_gen}"
    if was != now and next_gen == gen:
        yield f"moved from {was} to {now} within a generation"
    if was == now == "closed":
        yield "was closed while already closed"
    if was == "open" and next_gen > gen and not probed:
        yield f"moved from open to {now} without a probe"
    if next_gen == gen and probed and "probe_token" in new:
        lost = old is not None and old["probe_until"] < new["probe_until"]
        if not lost:
            yield "has two probes"
    if next_gen > gen and "probe_token" in new:
        yield "began a generation with a probe"
    if (now == "open") is not ("open_until" in new):
        yield f"is {now} with open_until {new.get('open_until')}"
