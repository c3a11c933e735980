"""Start an emulator and a proxy, and run the actors' commands through them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from pathlib import Path

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.demo.processes import NO_CREDENTIALS, isolated_environ
from piecework_orchestrator.embedded import deploy
from tests.own_emulator import own_emulator
from verification.iam.actors import APP, Actors, actor_environment
from verification.iam.proxy import Proxy, make_proxy

ENV = "prod"


async def run(folder: Path, acts: Callable[[Actors], Awaitable[None]]) -> Actors:
    """Run `acts` on a new emulator; the logs go into the folder."""
    kept = ("PATH", "HOME", "PIECEWORK_CACHE_DIR")
    plain = {name: os.environ[name] for name in kept if name in os.environ}
    with own_emulator() as emulator:
        deploy.deploy_embedded(emulator, APP, ENV)
        proxy = make_proxy(emulator.endpoint, ENV)
        with (
            (folder / "log").open("w") as log,
            redirect_stdout(log),
            isolated_environ({**plain, **NO_CREDENTIALS}),
        ):
            return await behind(proxy, emulator, folder, acts)


async def behind(
    proxy: Proxy,
    emulator: Emulator,
    folder: Path,
    acts: Callable[[Actors], Awaitable[None]],
) -> Actors:
    """Open the proxy, and run `acts` behind it."""
    async with proxy.open() as url:
        with actor_environment(url, ENV, folder):
            actors = Actors(proxy, emulator, ENV, folder)
            await acts(actors)
            return actors
