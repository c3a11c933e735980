"""`python -m verification.security`: everything at full size, and the figures."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from piecework.aws.queue import read
from piecework.domain.keys import QUARANTINE_PK
from piecework.runtime import Runtime
from verification.security.bombing import (
    EXPECTED,
    MOST_MB,
    bombed,
    pdf_bomb,
    read_apart,
)
from verification.security.canaries import Planted
from verification.security.damaging import damaged, met
from verification.security.deployment import deployed, worker
from verification.security.entry_points import let_through
from verification.security.fuzz import bodies
from verification.security.leaking import leaked, quiet
from verification.security.receiving import receive
from verification.security.traversal import strings

#: Of so many fuzzed messages one goes through the true queue and a true process, too.
SHARE = 50


def main() -> int:
    """Run all; 0 if nothing happened that may not."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.security", description=__doc__
    )
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for name in [n for n in os.environ if n.startswith(("AWS_", "PIECEWORK_"))]:
        if name != "PIECEWORK_CACHE_DIR":
            del os.environ[name]
    began = time.monotonic()
    figures = asyncio.run(run(asked.messages, asked.seed))
    figures["seconds"] = round(time.monotonic() - began)
    say(" ".join(f"{name}={value}" for name, value in figures.items()))
    return int(figures["broken"] > 0)


async def run(messages: int, seed: int) -> Counter[str]:
    """Do one thing after another; `broken` counts what may not be."""
    figures = Counter[str]()
    await fuzz(messages, seed, figures)
    await damage(figures)
    await walk(figures)
    async with deployed() as rt:
        await fuzz_queue(rt, messages // SHARE, seed, figures)
        planted = Planted(seed)
        figures["canaries"] = len(planted.all)
        leaks = await leaked(rt, planted)
        figures["leaks"] = len(leaks)
        report(figures, f"{len(planted.all)} canaries through a true worker", leaks)
        await bomb(rt, figures)
    return figures


async def fuzz(messages: int, seed: int, figures: Counter[str]) -> None:
    """Fuzz the receive path in this process."""
    found = await receive(messages, seed)
    for end, count in found.ends.most_common():
        say(f"  {count:>6} {end}")
    figures["messages"] = found.ends.total()
    figures["crashes"] = len(found.crashed)
    figures["imports"] = len(found.forbidden)
    figures["crossed"] = len(found.crossed)
    wrong = [*found.crashed, *found.forbidden, *found.crossed]
    report(figures, f"{messages} messages in {found.seconds:.0f} s", wrong)


async def fuzz_queue(rt: Runtime, count: int, seed: int, figures: Counter[str]) -> None:
    """Fuzz a true worker through a true queue; what SQS itself refuses is not sent.

    Nor what is of a newer version: that is left to newer workers for minutes.
    """
    sent = 0
    for body in bodies(count, seed + 1):
        if read({"Body": body, "ReceiptHandle": "", "MessageId": ""}).newer:
            continue
        try:
            body.encode()
            await rt.work.default.client.send_message(
                QueueUrl=rt.work.default.url, MessageBody=body
            )
        except Exception:  # noqa: BLE001, S112 -- refused before it is a message
            continue
        sent += 1
    async with worker(["verification.security.leaky"], {}) as finished:
        await quiet(rt, within=300)
    codes = Counter[str]()
    async for row in rt.dead_letters.query(QUARANTINE_PK):
        codes[str(row["error_code"])] += 1
    figures["queued"], figures["quarantined"] = sent, codes.total()
    wrong = [line for line in finished.stderr.splitlines() if "turn_failed" in line]
    wrong += [] if codes.total() == sent else [f"{codes} of {sent} are set aside"]
    report(figures, f"{sent} messages through a true queue: {dict(codes)}", wrong)


async def damage(figures: Counter[str]) -> None:
    """Let a worker read items that were edited by hand."""
    wrong, codes = list[str](), Counter[str]()
    for each in damaged():
        outcome = await met(each)
        wrong += outcome.crashed
        codes.update(outcome.codes)
        figures["damaged"] += 1
    report(figures, f"{figures['damaged']} damaged items: {dict(codes)}", wrong)


async def walk(figures: Counter[str]) -> None:
    """Try every name that leads elsewhere at every entry point."""
    names = strings()
    with tempfile.TemporaryDirectory() as folder:
        found = await let_through(Path(folder), names)
    figures["names"], figures["entry_points"] = len(names), len(found)
    wrong = [f"{place}: {name!r}" for place, passed in found.items() for name in passed]
    report(figures, f"{len(names)} names at {len(found)} entry points", wrong)


async def bomb(rt: Runtime, figures: Counter[str]) -> None:
    """Measure a worker that is given and returns far too much, and a document."""
    found = await bombed(rt)
    wrong = [
        f"{name} ended with {found.codes.get(name)}, not {code}"
        for name, code in EXPECTED.items()
        if found.codes.get(name) != code
    ]
    wrong += [f"{found.peak_mb:.0f} MB"] if found.peak_mb >= MOST_MB else []
    figures["worker_peak_mb"] = round(found.peak_mb)
    report(figures, f"{len(EXPECTED)} bombs: {found.peak_mb:.0f} MB at the most", wrong)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bomb.pdf"
        pdf_bomb(path)
        packed = path.stat().st_size
        code, peak = await read_apart(path)
    figures["intake_peak_mb"] = round(peak)
    wrong = [f"{peak:.0f} MB"] if peak >= MOST_MB or "." not in code else []
    report(figures, f"a PDF of {packed:,} bytes that unpacks to 200 MB: {code}", wrong)


def report(figures: Counter[str], what: str, wrong: list[str]) -> None:
    """Print the result of a test."""
    figures["broken"] += len(wrong)
    say(f"{'BROKEN' if wrong else 'ok':<7} {what}")
    for line in wrong[:20]:
        say(f"        {line[:300]}")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
