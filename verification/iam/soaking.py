"""A small soak behind the door: every process of it signs as the actor that it is.

Whoever is killed, frozen or lied to takes ways that no play has; none may end at the
door. Workers run without a reconciler beside them, as the service stack has them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from piecework_orchestrator.demo import processes
from piecework_orchestrator.demo.processes import ChildProcess
from verification.iam.door import Call
from verification.soak import microburst
from verification.soak.plan import Plan
from verification.soak.run import run
from verification.soak.site import ENV, url_of
from verification.soak.verdict import judge

#: Seconds between two of the door's records, and that it is waited for the last.
RECORD_S, LAST_S = 0.5, 1.5
#: Who a process is, by the first words of its command.
ACTORS = {
    ("piecework_worker",): "worker",
    ("piecework_orchestrator.cli", "reconcile"): "reconciler",
    ("piecework_orchestrator.cli", "submit"): "orchestrator",
    ("piecework_orchestrator.cli", "dlq"): "operator-write",
    ("piecework_orchestrator.cli", "jobs"): "operator-write",
}


async def soak(plan: Plan, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Soak behind a door; return what it saw, and the promises that were broken."""
    record = folder / "door.json"
    with behind_a_door(record, folder):
        course = await run(plan, folder, say)
        await asyncio.sleep(LAST_S)
    seen: dict[str, Any] = json.loads(record.read_text())
    return seen | {"broken": list(judge(plan, course).broken())}


@contextmanager
def behind_a_door(record: Path, folder: Path) -> Iterator[None]:
    """Put a door between the faults and the emulator, and let everybody sign."""
    start, proxy = processes.start_process, microburst.start
    doors: list[ChildProcess] = []

    def signed(
        name: str,
        module: Sequence[str],
        environment: Mapping[str, str],
        *more: Any,
        **how: Any,
    ) -> ChildProcess:
        who = next((a for w, a in ACTORS.items() if tuple(module[: len(w)]) == w), "")
        alone = ["--no-reconcile"] if who == "worker" else []
        seen = {**environment, **({"AWS_ACCESS_KEY_ID": who} if who else {})}
        return start(name, [*module, *alone], seen, *more, **how)

    def past_the_door(
        python: Path, upstream: str, place: Path
    ) -> tuple[ChildProcess, str]:
        words = {
            "--upstream": upstream,
            "--env": ENV,
            "--record": record,
            "--every-s": RECORD_S,
        }
        module = [
            "verification.iam.door",
            *(str(w) for pair in words.items() for w in pair),
        ]
        doors.append(start("door", module, {}, folder / "door.log", listen=True))
        return proxy(python, url_of(doors[0]), place)

    try:
        with (
            patch.object(processes, "start_process", signed),
            patch.object(microburst, "start", past_the_door),
        ):
            yield
    finally:
        processes.kill_all(doors)


def calls(rows: Sequence[Mapping[str, Any]]) -> list[Call]:
    """Return what the door wrote down."""
    return [Call(**{**row, "keys": tuple(row["keys"])}) for row in rows]
