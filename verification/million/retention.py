"""Print what it takes to delete a job, beside what its run took; fail above 5 %.

    make retention

A worker runs a job, and a reconciler whose clock is ahead by the retention deletes it.
Then an operator deletes at once the rows that wait for DynamoDB. The AWS server of the
bench counts the units of each. The own work for a million chunks is carried out on the
models, and timed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework.domain.retention import life_of_rows
from piecework.domain.states import JobStatus
from piecework.jobs.deletion import UNITS_PER_S, delete_job, sweep_again
from piecework.settings import Settings
from piecework.store.deletions import RETENTION_ACTOR, Deletions
from piecework_simulation.in_process import InProcessAws
from verification.million.__main__ import FORMS, TIMES, run_form
from verification.million.by_hand import MILLION, Counted

#: The most that a deletion may take of the units of the run.
MOST: Final = 0.05
#: The most seconds of own work for a million chunks.
MOST_S: Final = 7200.0


def print_form(form: str, counted: Counted) -> bool:
    """Print the units of a job; return whether its deletion takes little."""
    run, later, now = (
        each.units(reads=False)
        for each in (counted.run, counted.deletion, counted.at_once)
    )
    hours = now / counted.chunks * MILLION / UNITS_PER_S / 3600
    sys.stdout.write(
        f"{counted.chunks:,} chunks of {FORMS[form]}: run {run:,.0f} write units;"
        f" deletion by the retention {later:,.0f}, {later / run:.3f} of the run;"
        f" at once {now:,.0f}, {now / run:.3f}, {hours:.1f} h for a million\n"
    )
    return later <= MOST * run


async def a_million() -> float:
    """Delete a job of a million chunks as the retention does; return the seconds.

    The rows of its chunks are left to DynamoDB, so there are none here. Its tallies are
    deleted by their keys.
    """
    aws = InProcessAws(Settings())
    rt, ref = aws.runtime("reconciler"), JobRef("default", "a")
    now = rt.clock()
    facts = {"pipeline": "p", "chunks": MILLION, **life_of_rows(now, 90)}
    await rt.jobs.create(ref, facts)
    ended = {
        "status": JobStatus.SUCCEEDED,
        "delete_after": "2000",
        "finished_at": "2000",
    }
    item = await rt.table.get(ref.pk, keys.META_SK)
    put = rt.table.item_write(
        "Put", ref.pk, keys.META_SK, item={**(item or {}), **ended}
    )
    await rt.table.put(put)
    job = await rt.jobs.read(ref)
    assert job is not None
    await Deletions(rt.table, rt.clock).begin(job, RETENTION_ACTOR, "why")
    began = time.monotonic()
    while (job := await rt.jobs.read(ref)) and job.status is JobStatus.DELETING:
        await delete_job(rt, job)
    assert job is not None
    assert await sweep_again(rt, job)
    return time.monotonic() - began


def main() -> int:
    """Be the command line."""
    parser = argparse.ArgumentParser(prog="python -m verification.million.retention")
    parser.add_argument("--chunks", type=int, default=64, help="chunks with calls")
    parser.add_argument("--only", choices=sorted(FORMS), help="only this form")
    args = parser.parse_args()
    agrees = True
    for form in FORMS if args.only is None else (args.only,):
        with TemporaryDirectory(prefix="piecework-retention-") as made:
            chunks = args.chunks * TIMES[form]
            counted = asyncio.run(run_form(form, chunks, Path(made)))[0]
        agrees = print_form(form, counted) and agrees
    seconds = asyncio.run(a_million())
    sys.stdout.write(f"own work for a million chunks: {seconds:.0f} s\n")
    return 0 if agrees and seconds <= MOST_S else 1


if __name__ == "__main__":
    sys.exit(main())
