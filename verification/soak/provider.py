"""The outside world: a service that fails by seed and keeps books of every effect.

    python -m verification.soak.provider --ledger FILE --seed N

A fifth of the requests fails: refused outright, or failed before anything happened. The
worst are carried out, then answered with an error or not at all. What was carried out
is in the ledger, one JSON line each, before the answer leaves.

`keyed` operations honour idempotency keys. `sought` ones can be looked up by key, and
`naive` ones neither: both do again what they are asked again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from aiohttp import web

LOOPBACK = "127.0.0.1"
#: In 100 requests, how many are refused, fail before the act, and fail after it.
FAULTS = {"call": (8, 8, 4), "keyed": (6, 7, 7), "sought": (6, 7, 7)}
#: An error here cannot be told from success: each costs a chunk its way on.
NAIVE_FAULTS = (16, 2, 2)
#: A try that is this far on goes through.
PATIENT = 12
REFUSED, GONE_WRONG, REJECTED = 429, 503, 422


@dataclass(slots=True)
class Books:
    """What was done, and the file that it is written to."""

    file: int
    rng_seed: str
    latency_s: tuple[float, float]
    fixed: bool = False
    answers: dict[str, str] = field(default_factory=dict)
    standing: Counter[str] = field(default_factory=Counter)
    tries: Counter[str] = field(default_factory=Counter)

    def write(self, what: str, asked: dict[str, Any]) -> None:
        """Write a line, in one piece."""
        line = {"at": time.time(), "what": what, **asked}
        os.write(self.file, json.dumps(line).encode() + b"\n")

    def fate(self, asked: dict[str, Any]) -> str:
        """Decide what becomes of a request: by seed, place and number of the try."""
        place = f"{asked['op']}/{asked['job']}/{asked['chunk']}/{asked['key']}"
        self.tries[place] += 1
        if self.tries[place] > PATIENT:
            return "answered"
        drawn = Random(f"{self.rng_seed}/{place}/{self.tries[place]}").uniform(0, 100)
        rates = FAULTS.get(asked["kind"], NAIVE_FAULTS)
        for fate, rate in zip(("refused", "before", "after"), rates, strict=True):
            if drawn < rate:
                return fate
            drawn -= rate
        return "answered"

    def carry_out(self, asked: dict[str, Any]) -> str:
        """Do what was asked for, or find that it is done."""
        key, op, kind = asked["key"], asked["op"], asked["kind"]
        if kind == "keyed" and key in self.answers:
            return self.answers[key]
        thing = f"{asked['of'] or op}/{asked['job']}/{asked['chunk']}"
        if kind == "call":
            self.write("call", asked)
        elif not asked["of"]:
            self.standing[thing] += 1
            self.write("done", asked)
        elif self.standing[thing]:
            self.standing[thing] -= 1
            self.write("undone", asked)
        self.answers[key] = f"{op}-{asked['job']}-{asked['chunk']}"
        return self.answers[key]


def routes(books: Books) -> web.Application:
    """Return the service."""
    rng = Random(books.rng_seed)

    async def do(request: web.Request) -> web.Response:
        asked = await request.json()
        await asyncio.sleep(rng.uniform(*books.latency_s))
        if asked.pop("doomed") and not books.fixed:
            return web.Response(status=REJECTED)
        match books.fate(asked):
            case "refused":
                return web.Response(status=REFUSED)
            case "before":
                return web.Response(status=GONE_WRONG)
            case "after":
                books.carry_out(asked)
                if rng.random() < 0.5 and request.transport is not None:
                    request.transport.abort()
                return web.Response(status=GONE_WRONG)
        return web.json_response(books.carry_out(asked))

    async def look_up(request: web.Request) -> web.Response:
        return web.json_response(books.answers.get(request.match_info["key"]))

    async def fix(request: web.Request) -> web.Response:
        books.fixed = True
        return web.Response()

    async def fixed(request: web.Request) -> web.Response:
        return web.json_response(books.fixed)

    app = web.Application()
    app.router.add_post("/do", do)
    app.router.add_get("/fixed", fixed)
    app.router.add_get("/done/{key}", look_up)
    app.router.add_post("/fix", fix)
    return app


async def serve(arguments: argparse.Namespace) -> None:
    """Answer until killed; say where, in one line."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    file = os.open(arguments.ledger, flags)
    latency_s = (arguments.latency / 2, arguments.latency * 1.5)
    books = Books(file, f"provider {arguments.seed}", latency_s)
    runner = web.AppRunner(routes(books), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, 0)
    await site.start()
    port = runner.addresses[0][1]
    sys.stdout.write(json.dumps({"url": f"http://{LOOPBACK}:{port}"}) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="verification.soak.provider")
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.2)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
