"""The same on DBOS with one file of SQLite: a workflow for each row, with two steps.

It runs in an environment of its own. Set up as its documentation says: an executor that
starts again goes on with the workflows of its earlier process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from dbos import DBOS, DBOSConfig, SetWorkflowID

CALL_S = float(os.environ.get("RESUME_CALL_S", "0.03"))
CONFIG: DBOSConfig = {
    "name": "resume",
    "system_database_url": "sqlite:///resume.sqlite",
    "application_version": "1",
    "executor_id": "worker",
    "log_level": "ERROR",
    "run_admin_server": False,
}


def write(*words: object) -> None:
    """Append a line to the book, in one write."""
    book = os.open(os.environ["RESUME_BOOK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(book, (" ".join(map(str, words)) + "\n").encode())
    os.close(book)


@DBOS.step()
async def ask(n: int) -> int:
    """Be a slow, paid call."""
    write("begin", n)
    await asyncio.sleep(CALL_S)
    return n * n


@DBOS.step()
async def send(n: int) -> str:
    """Be an effect of a system that honours keys."""
    write("effect", n, DBOS.workflow_id)
    return "sent"


@DBOS.workflow()
async def square(n: int) -> int:
    """Ask, then send."""
    value = await ask(n)
    write("end", n)
    await send(n)
    return value


async def main(rows: int, slots: int) -> None:
    """Start each row once, at most `slots` at a time; print the results."""
    free = asyncio.Semaphore(slots)

    async def run(n: int) -> None:
        async with free:
            with SetWorkflowID(f"row-{n}"):
                handle = await DBOS.start_workflow_async(square, n)
            value = await handle.get_result(polling_interval_sec=0.05)
        sys.stdout.write(json.dumps({"chunk": n, "value": value}) + "\n")

    await asyncio.gather(*map(run, range(rows)))


if __name__ == "__main__":
    DBOS(config=CONFIG)
    DBOS.launch()
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
    sys.stdout.flush()
    os._exit(0)
