"""The canaries through a true worker: a job that fails in every way, and a search."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from piecework.domain.refs import JobRef
from piecework.runtime import Runtime
from tests.scenarios.command_line import end, start
from verification.security.canaries import Planted, leaks, manifests, outside_of_values
from verification.security.deployment import ended, started, worker
from verification.security.leaky import leaky, leaky_apart

#: Commands that show no payloads; `dlq show` and `results` do, on purpose.
COMMANDS = (
    ("jobs", "list", "-o", "json"),
    ("jobs", "show", "leaky", "-o", "json"),
    ("jobs", "events", "leaky", "-o", "json"),
    ("chunks", "list", "leaky", "-o", "json"),
    *(("chunks", "show", "leaky", str(n), "-o", "json") for n in (0, 8, 10)),
    ("dlq", "list", "--limit", "0", "-o", "json"),
    ("dlq", "stats", "-o", "json"),
    ("dlq", "export"),
)


async def leaked(
    rt: Runtime, planted: Planted, *, apart: bool = True, commands: int = len(COMMANDS)
) -> list[str]:
    """Run the jobs, and return what leaked out of them.

    `apart`: stages in processes of their own, too.
    """
    jobs = {"leaky": leaky} | ({"leaky-apart": leaky_apart} if apart else {})
    metrics = {"PIECEWORK_METRICS": "emf"}
    modules = ["verification.security.leaky"]
    for name, pipeline in jobs.items():
        await started(rt, JobRef("default", name), pipeline, planted.leaks)
    await send_raw(rt, [json.dumps({"v": 1, "x": text}) for text in planted.messages])
    async with worker(modules, planted.environment | metrics) as finished:
        for name in jobs:
            await ended(rt, JobRef("default", name), within=120)
        await quiet(rt)
    places = {"stderr": finished.stderr, "stdout": finished.stdout}
    assert '"chunk.dead_lettered"' in finished.stderr, finished.stderr[-2000:]
    for table in (rt.table, rt.dead_letters):
        async for item in table.scan():
            places[f"{table.name} {item['pk']} {item['sk']}"] = outside_of_values(item)
    keys = iter([key async for key in rt.objects.names("tenants/")])
    for key in manifests(keys):
        places[key] = (await rt.objects.get(key)).decode(errors="replace")
    for words in COMMANDS[-commands:]:
        done = await end(await start(*words))
        assert done.exit_code == 0, (words, done.stderr)
        places[" ".join(words)] = done.stdout + done.stderr
    return leaks(planted.all, places)


async def send_raw(rt: Runtime, texts: list[str]) -> None:
    """Send messages that are not ours."""
    for text in texts:
        await rt.work.default.client.send_message(
            QueueUrl=rt.work.default.url, MessageBody=text
        )


async def quiet(rt: Runtime, within: float = 20) -> None:
    """Wait until the queue is empty."""
    await until(lambda: empty(rt), within)


async def empty(rt: Runtime) -> bool:
    """Return whether nothing is in the queue, hidden or not."""
    return await rt.work.default.depth() == 0


async def until(condition: Callable[[], Awaitable[bool]], within: float) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(within):
        while not await condition():  # noqa: ASYNC110 -- it is asked for, not told
            await asyncio.sleep(0.1)
