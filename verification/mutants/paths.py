"""Name the paths outside the store whose source files are mutated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

#: Folders, and single files of folders that do other things too.
PATHS = [
    "piecework/aws/queue.py",
    "piecework/aws/transport",
    "piecework/calls",
    "piecework/idempotency",
    "piecework/jobs",
    "piecework/reconciler",
    "piecework/resilience",
    "piecework/saga",
    "workers/piecework_worker",
    "orchestrator/piecework_orchestrator/operate/answering.py",
    "orchestrator/piecework_orchestrator/operate/cancel.py",
    "orchestrator/piecework_orchestrator/dead_letters/redrive.py",
    "orchestrator/piecework_orchestrator/operate/retry.py",
]

#: Files of these folders that no chunk passes: how a process starts, ends and reports.
EXCLUDED = {"__init__", "__main__", "ecs", "health", "process_tuning", "shutdown"}


def sources(root: Path) -> Iterator[str]:
    """Yield the source files of the paths, without those of their subfolders."""
    for path in PATHS:
        place = root / path
        files = sorted(place.glob("*.py")) if place.is_dir() else [place]
        for file in files:
            if file.stem not in EXCLUDED:
                yield file.relative_to(root).as_posix()
