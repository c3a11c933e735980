"""Run both services in one process, on loopback, until SIGTERM.

    python -m piecework_examples.contract_review.services --port 0 --seed 7

Prints one line of JSON with the addresses when it is ready.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Final

from aiohttp import web

from piecework_examples.contract_review.services.addin import AddinService
from piecework_examples.contract_review.services.bedrock import BedrockStub
from piecework_examples.contract_review.services.faults import ADDIN_MIX, Faults
from piecework_examples.contract_review.services.ledger import Ledger

HOST: Final = "127.0.0.1"
_SAVE_EVERY: Final = 0.5  # seconds


def main() -> None:
    """Parse, and serve."""
    asyncio.run(serve(parser().parse_args()))


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    options = argparse.ArgumentParser(
        prog="python -m piecework_examples.contract_review.services",
        description=__doc__,
    )
    options.add_argument("--port", type=int, default=8765, help="0: any free one")
    options.add_argument("--state", type=Path, help="keep the counts in this file")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--fault-rate", type=float, default=0.0, metavar="SHARE")
    options.add_argument(
        "--faulty-tries", type=int, default=2, help="later tries never fail"
    )
    options.add_argument("--latency", type=float, default=0.05, metavar="SECONDS")
    options.add_argument("--addin-latency", type=float, default=0.0, metavar="SECONDS")
    options.add_argument("--retry-after", type=int, default=1, metavar="SECONDS")
    options.add_argument("--hang", type=float, default=60.0, metavar="SECONDS")
    return options


async def serve(options: argparse.Namespace) -> None:
    """Serve until a signal; save the counts meanwhile and at the end."""
    bedrock, addin = services(options)
    if options.state:
        _restore(options.state, bedrock, addin)
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    # A hanging call must not hold up the end.
    runner = web.AppRunner(application(bedrock, addin), shutdown_timeout=0.2)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, options.port)
        await site.start()
        port = runner.addresses[0][1]
        print(json.dumps(_ready(f"http://{HOST}:{port}")), flush=True)
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _SAVE_EVERY)
            _save(options.state, bedrock, addin)
    finally:
        await runner.cleanup()
        _save(options.state, bedrock, addin)


def services(options: argparse.Namespace) -> tuple[BedrockStub, AddinService]:
    """Return both services as the options want them."""
    faults = Faults(options.seed, options.fault_rate, options.faulty_tries)
    bedrock = BedrockStub(faults, options.latency, options.retry_after, options.hang)
    addin = AddinService(
        replace(faults, mix=ADDIN_MIX), options.addin_latency, options.retry_after
    )
    return bedrock, addin


def application(bedrock: BedrockStub, addin: AddinService) -> web.Application:
    """Return one application with the routes of both."""
    app = web.Application()
    app.add_routes([*bedrock.routes(), *addin.routes()])
    return app


def _ready(url: str) -> dict[str, str | int]:
    return {
        "pid": os.getpid(),
        "bedrock": url,
        "addin": url,
        "stats": f"{url}/stats",
        "ledger": f"{url}/ledger",
    }


def _restore(state: Path, bedrock: BedrockStub, addin: AddinService) -> None:
    if state.exists():
        kept = json.loads(state.read_text("utf-8"))
        bedrock.restored(kept["bedrock"])
        addin.ledger = Ledger.load(kept["addin"])


def _save(state: Path | None, bedrock: BedrockStub, addin: AddinService) -> None:
    """Write to the side and rename: a reader never meets half a file."""
    if state is None:
        return
    kept = {"bedrock": bedrock.stats(), "addin": addin.ledger.dump()}
    aside = state.with_suffix(".part")
    aside.write_text(json.dumps(kept), "utf-8")
    aside.replace(state)


if __name__ == "__main__":
    main()
