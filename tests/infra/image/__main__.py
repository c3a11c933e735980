"""Rehearse the image without a container engine, with the Python that it has.

    python -m tests.infra.image [--python python3.13]

It does each RUN of the first stage as it stands, on a root filesystem of its own. They
make two environments, with the dependencies by their hashes and the compiled wheel.
Then worker, reconciler and command do a job in the result, as the image's user.
It leaves out the second stage's RUN, which is about the base image's own files.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.embedded import deploy
from tests.infra.image.container import Container, entry_point, health_check, start
from tests.infra.image.context import copied
from tests.infra.image.dockerfile import image
from tests.infra.image.root import UID, Mount, inside, why_not
from tests.own_emulator import own_emulator

#: What the first stage writes to.
BUILT = ("/build", "/app", "/wheels", "/src", "/root/.cache/pip")
#: What of the machine's pip holds inside, too: where packages come from, and whom it
#: trusts.
PIP = {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT"}
MEGABYTE = 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.infra.image", description=__doc__)
    parser.add_argument("--python", default="python3.13")
    python = shutil.which(parser.parse_args(arguments).python)
    why = why_not() or ("" if python else "needs the Python that the image has")
    if why or python is None:
        say(f"skipped: {why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        work = Path(folder)
        work.chmod(0o755)
        base = Path(ask(python, "import sys; print(sys.base_prefix)"))
        mounts = [Mount(base, str(base)), *built(work)]
        build(mounts, work, base / "bin")
        used = [mount for mount in mounts if mount.there in {"/app", str(base)}]
        app = [Mount(mount.here, mount.there) for mount in used]
        return asyncio.run(rehearse(app, work))


def built(work: Path) -> list[Mount]:
    """Make the folders that the first stage writes to, with the context in place."""
    mounts = []
    for there in BUILT:
        here = work / there.strip("/").replace("/", "-")
        here.mkdir(mode=0o755)
        mounts.append(Mount(here, there, writable=True))
    copied(image(), work / "src")
    return mounts


def build(mounts: Sequence[Mount], work: Path, python: Path) -> None:
    """Carry out each RUN of the first stage."""
    own = {k: v for k, v in os.environ.items() if k in PIP}
    path = f"{python}:/usr/local/bin:/usr/bin:/bin"
    variables = {**own, **image().build.pairs("ENV"), "PATH": path, "HOME": "/root"}
    for each in image().build.all("RUN"):
        root = Path(tempfile.mkdtemp(dir=work))
        command = ["sh", "-c", each.text]
        program = inside(
            command, variables, mounts, root, directory="/src", confined=False
        )
        began = time.monotonic()
        subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
        say(f"{time.monotonic() - began:6.1f} s  {each.text[:66]}")


async def rehearse(app: Sequence[Mount], work: Path) -> int:
    """Do a job in what was built; return 1 if anything was not as it has to be."""
    with own_emulator() as emulator:
        deploy.deploy_embedded(emulator, "piecework", "local")
        return await play(app, work, given_to(emulator))


def given_to(emulator: Emulator) -> dict[str, str]:
    """Return what a platform would put into the environment."""
    return {
        "AWS_ENDPOINT_URL": emulator.endpoint,
        "AWS_DEFAULT_REGION": emulator.region,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "PIECEWORK_LOG_LEVEL": "warning",
    }


async def play(app: Sequence[Mount], work: Path, given: dict[str, str]) -> int:
    """Run the three kinds of process that the one image is for."""
    worker_command = [*entry_point(), "--pipelines", "piecework_examples.quickstart"]
    reconciler_command = ["piecework", "reconcile", "--loop"]
    worker = await start([*worker_command, "--no-reconcile"], given, app, work / "w")
    reconciler = await start(reconciler_command, given, app, work / "r")
    try:
        pages = Mount(work / "src" / "requirements", "/home/piecework")
        submitting = ["piecework", "submit", "piecework_examples.quickstart:word_count"]
        words = [*submitting, "build.txt", "--wait", "--timeout", "2m"]
        command = await start(words, given, [*app, pages], work / "c")
        found = {"command": await command.process.wait()}
        for name, container in (("worker", worker), ("reconciler", reconciler)):
            found |= await inspected(name, container)
    finally:
        await worker.kill()
        await reconciler.kill()
    folder = next(mount.here for mount in app if mount.there == "/app")
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    say(" ".join(f"{name}={code}" for name, code in found.items()))
    say(f"uid={UID} root=read-only app_mb={size / MEGABYTE:.0f}")
    return 1 if any(found.values()) else 0


async def inspected(name: str, container: Container) -> dict[str, int]:
    """Ask a process for its health, as the platform does, and stop it."""
    began = time.monotonic()
    code, said = await container.run(*health_check())
    took = time.monotonic() - began
    say(f"{name}: {said}, in {took * 1000:.0f} ms")
    other = int(container.facts()["Uid"].split()[0] != UID)
    stopped = await container.stop()
    return {f"{name}_health": code, f"{name}_user": other, f"{name}_stop": stopped}


def ask(python: str, program: str) -> str:
    """Return what a program prints."""
    run = [python, "-c", program]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
