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

from orchestrator.demo import children
from orchestrator.demo.children import ChildProcess
from tests.iam.door import Call
from tests.soak import microburst
from tests.soak.plan import Plan
from tests.soak.run import run
from tests.soak.site import ENV, url_of
from tests.soak.verdict import judge

#: Seconds between two of the door's records, and that it is waited for the last.
RECORD_S, LAST_S = 0.5, 1.5
#: Who a process is, by the first words of its command.
ACTORS = {
    ("workers",): "worker",
    ("orchestrator.cli", "reconcile"): "reconciler",
    ("orchestrator.cli", "submit"): "orchestrator",
    ("orchestrator.cli", "dlq"): "operator-write",
    ("orchestrator.cli", "jobs"): "operator-write",
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
    start, proxy = children.start_process, microburst.start
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
        module = ["tests.iam.door", *(str(w) for pair in words.items() for w in pair)]
        doors.append(start("door", module, {}, folder / "door.log", listen=True))
        return proxy(python, url_of(doors[0]), place)

    try:
        with (
            patch.object(children, "start_process", signed),
            patch.object(microburst, "start", past_the_door),
        ):
            yield
    finally:
        children.kill_all(doors)


def calls(rows: Sequence[Mapping[str, Any]]) -> list[Call]:
    """Return what the door wrote down."""
    return [Call(**{**row, "keys": tuple(row["keys"])}) for row in rows]
