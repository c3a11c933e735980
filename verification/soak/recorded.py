"""A soak's records as its folder keeps them: all that the history is judged by."""

from __future__ import annotations

from pathlib import Path

from piecework.settings import Settings
from verification.soak import pipelines
from verification.soak.fleet import WORKER_LOGS
from verification.soak.ledger import read_ledger
from verification.soak.logs import lines_of, read_acks, read_logs
from verification.soak.record import Change, Limits, Record
from verification.soak.site import ACKS, CHANGES, LEDGER


def read_records(folder: Path) -> list[Record]:
    """Read changes, effects, deletions and logs."""
    return [
        *(Change(**line) for line in lines_of(folder / CHANGES)),
        *read_ledger(folder / LEDGER),
        *read_acks(folder / ACKS),
        *read_logs(folder, WORKER_LOGS),
    ]


def limits(settings: Settings, folder: Path) -> Limits:
    """Return what the history is held to."""
    manifests = sorted(folder.glob("*.manifest.jsonl"))
    poison = {
        (settings.tenant, path.name.partition(".")[0], n)
        for path in manifests
        for n, work in enumerate(lines_of(path))
        if work["trouble"] == pipelines.POISON
    }
    return Limits(
        settings.lease_s,
        settings.clock_skew_s,
        settings.max_attempts,
        settings.max_releases,
        settings.max_takeovers,
        {
            pipeline.name: (
                tuple(stage.name for stage in pipeline.stages),
                pipeline.pivot_index,
            )
            for pipeline in pipelines.ALL
        },
        naive=pipelines.NAIVE,
        poison=frozenset(poison),
    )
