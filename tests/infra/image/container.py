"""A process of the image: its environment, what the kernel knows of it, its health."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.infra.image.dockerfile import image
from tests.infra.image.root import Mount, beside, first, inside


def entry_point() -> list[str]:
    """Return what the image starts."""
    (found,) = image().final.all("ENTRYPOINT")
    return found.listed or []


def health_check() -> list[str]:
    """Return what the image's health is asked for with."""
    (found,) = image().final.all("HEALTHCHECK")
    return found.listed or []


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process of the image, and what it is given."""
    own = image().final.pairs("ENV")
    path = own["PATH"].replace("$PATH", "/usr/local/bin:/usr/bin:/bin")
    return {**own, "PATH": path, **given}


async def start(
    command: Sequence[str],
    given: Mapping[str, str],
    mounts: Sequence[Mount],
    root: Path,
    **how: int,
) -> Container:
    """Start a process of the image, as unprivileged as a platform starts it."""
    root.mkdir()  # noqa: ASYNC240 -- nothing else waits meanwhile
    own = environment(given)
    (directory,) = [each.text for each in image().final.all("WORKDIR")]
    confined = inside(command, own, mounts, root, directory=directory)
    return Container(await asyncio.create_subprocess_exec(*confined, **how), own)


@dataclass
class Container:
    """A process inside."""

    process: asyncio.subprocess.Process
    environment: dict[str, str]

    @property
    def pid(self) -> int:
        """Its number, as the machine counts."""
        return first(self.process.pid)

    def facts(self) -> dict[str, str]:
        """Return what the kernel knows of it."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        pairs = (line.partition(":") for line in lines)
        return {name: value.strip() for name, _, value in pairs}

    async def run(self, *command: str) -> tuple[int, str]:
        """Run a command beside it; return the exit code, and what was said."""
        started = await asyncio.create_subprocess_exec(
            *beside(self.pid, command, self.environment),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await started.communicate()
        return started.returncode or 0, said.decode().strip()

    async def stop(self) -> int:
        """Stop it as a platform does; return its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), 30)

    async def kill(self) -> None:
        """End it, if it has not ended."""
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
