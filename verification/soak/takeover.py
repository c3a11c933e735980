"""How soon others go on with what a dead worker held: read off the change log."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from verification.soak.fleet import Death
from verification.soak.record import Change, Item, Throttling
from verification.soak.world import NOTHING, is_claim


@dataclass(frozen=True, slots=True)
class Takeover:
    """A chunk of a dead worker that another claimed.

    Attributes:
        seconds: From the death to the claim.
        throttled: Whether meanwhile, after the lease, AWS refused requests for the
            job's rows: until it takes them no worker can claim.
    """

    worker: str
    job: str
    chunk: int
    seconds: float
    throttled: bool = False


def takeovers(
    changes: Iterable[Change],
    deaths: Iterable[Death],
    throttlings: Sequence[Throttling] = (),
    lease_s: float = 0.0,
) -> list[Takeover]:
    """Return the takeover of each chunk of a killed worker, if it was claimed.

    No worker takes over a chunk that was cancelled meanwhile.
    """
    histories: dict[tuple[str, int], list[Change]] = defaultdict(list)
    hands: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for change in changes:
        if change.kind == "CHUNK":
            place = change.job, change.chunk or 0
            histories[place].append(change)
            hands[(change.new or NOTHING).get("claimed_by", "")].add(place)
    return [
        Takeover(
            death.worker,
            *place,
            claim.at - death.at,
            any(
                each.job == place[0]
                and each.at < claim.at
                and each.until > death.at + lease_s
                for each in throttlings
            ),
        )
        for death in deaths
        for place in sorted(hands[death.worker])
        if (claim := next_claim(histories[place], death)) is not None
    ]


def next_claim(history: Sequence[Change], death: Death) -> Change | None:
    """Return the first claim after a death, of a chunk that the dead one held."""
    before = [change.new for change in history if change.at <= death.at]
    held: Item = (before[-1] if before else None) or NOTHING
    if (held.get("status"), held.get("claimed_by")) != ("RUNNING", death.worker):
        return None
    for change in history[len(before) :]:
        new = change.new or NOTHING
        if new["gen"] != held["gen"]:
            return None
        if is_claim(held, new):
            return change
        if new.get("retry_at") not in {None, held.get("retry_at")}:
            return None  # its last write arrived after its death: it had settled
        held = new
    return None


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which such a share of them lies; nan for none."""
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else math.nan


def seconds(values: Sequence[float], share: float) -> str:
    """Return a percentile in words; `-` where there is nothing to measure."""
    return f"{percentile(values, share):.2f}" if values else "-"
