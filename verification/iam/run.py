"""Put an emulator and a door up, let the play be played, and say who asked for what."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from pathlib import Path

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.demo.processes import NO_CREDENTIALS, isolated_environ
from piecework_orchestrator.embedded import deploy, environment, server
from verification.iam.cast import APP, Cast, stage
from verification.iam.door import Door, door

ENV = "prod"


async def run(folder: Path, acts: Callable[[Cast], Awaitable[None]]) -> Cast:
    """Play acts on an emulator of their own; their logs go into the folder."""
    emulator = server.start(environment.ensure_environment(print), folder, "us-east-1")
    kept = ("PATH", "HOME", "PIECEWORK_CACHE_DIR")
    plain = {name: os.environ[name] for name in kept if name in os.environ}
    try:
        deploy.deploy_embedded(emulator, APP, ENV)
        ours = door(emulator.endpoint, ENV)
        with (
            (folder / "log").open("w") as log,
            redirect_stdout(log),
            isolated_environ({**plain, **NO_CREDENTIALS}),
        ):
            return await behind(ours, emulator, folder, acts)
    finally:
        server.stop(emulator.pid, folder)


async def behind(
    ours: Door,
    emulator: Emulator,
    folder: Path,
    acts: Callable[[Cast], Awaitable[None]],
) -> Cast:
    """Play acts behind a door that is not open yet."""
    async with ours.open() as url:
        with stage(url, ENV, folder):
            cast = Cast(ours, emulator, ENV, folder)
            await acts(cast)
            return cast
