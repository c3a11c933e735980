"""Run a small soak behind the proxy; each process signs as its actor.

Killed, frozen and disturbed processes make requests that commands do not make. The
proxy may refuse none. Workers run without a reconciler, as in the service stack.
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
from verification.iam.proxy import Call
from verification.soak import microburst
from verification.soak.plan import Plan
from verification.soak.run import run
from verification.soak.site import ENV, url_of
from verification.soak.verdict import judge

#: Seconds between two records of the proxy, and the wait for the last one.
RECORD_S, LAST_S = 0.5, 1.5
#: The actor of a process, by the first words of its command.
ACTORS = {
    ("piecework_worker",): "worker",
    ("piecework_orchestrator.cli", "reconcile"): "reconciler",
    ("piecework_orchestrator.cli", "submit"): "orchestrator",
    ("piecework_orchestrator.cli", "dlq"): "operator-write",
    ("piecework_orchestrator.cli", "jobs"): "operator-write",
}


async def soak(plan: Plan, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Soak behind a proxy; return its record, and the violations."""
    record = folder / "proxy.json"
    with behind_a_proxy(record, folder):
        course = await run(plan, folder, say)
        await asyncio.sleep(LAST_S)
    seen: dict[str, Any] = json.loads(record.read_text())
    return seen | {"broken": list(judge(plan, course).broken())}


@contextmanager
def behind_a_proxy(record: Path, folder: Path) -> Iterator[None]:
    """Put a proxy between the faults and the emulator, and let each process sign."""
    start, proxy = processes.start_process, microburst.start
    proxies: list[ChildProcess] = []

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

    def through_the_proxy(
        python: Path, upstream: str, place: Path
    ) -> tuple[ChildProcess, str]:
        words = {
            "--upstream": upstream,
            "--env": ENV,
            "--record": record,
            "--every-s": RECORD_S,
        }
        module = [
            "verification.iam.proxy",
            *(str(w) for pair in words.items() for w in pair),
        ]
        proxies.append(start("proxy", module, {}, folder / "proxy.log", listen=True))
        return proxy(python, url_of(proxies[0]), place)

    try:
        with (
            patch.object(processes, "start_process", signed),
            patch.object(microburst, "start", through_the_proxy),
        ):
            yield
    finally:
        processes.kill_all(proxies)


def calls(rows: Sequence[Mapping[str, Any]]) -> list[Call]:
    """Return the calls of a record."""
    return [Call(**{**row, "keys": tuple(row["keys"])}) for row in rows]
