"""Guarantee: what the image starts works unprivileged, on a read-only root filesystem.

The test needs no container engine. It builds and installs the wheel as the Dockerfile
does, and runs the worker on a root of its own. The environment of these tests lends the
dependencies; `make image-rehearsal` installs them by their hashes.
"""

from __future__ import annotations

import asyncio
import ensurepip
import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from piecework.aws.endpoint import Emulator
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.runtime import connect
from piecework.settings import load_settings
from piecework_examples.quickstart import Paragraph, word_count
from piecework_orchestrator.submit.submit import Submission, submit
from tests.infra.image.container import Container, entry_point, health_check, start
from tests.infra.image.context import copied
from tests.infra.image.dockerfile import image
from tests.infra.image.root import UID, Mount, inside, python_of_the_machine, why_not

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
#: Lent under a name of its own: a checkout in /tmp is out of sight in there.
LENT = Mount(Path(sysconfig.get_path("purelib")), "/lent")
#: Tried by a process inside; each says its outcome.
PROBE = """
import json, os
def tried(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return type(error).__name__ + " " + str(error.errno)
    return "written"
print(json.dumps([tried(p) for p in ("/x", "/app/x", "/home/piecework/x", "/tmp/x")]))
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from what COPY copies, and install it in `/app`."""
    source = tmp_path_factory.mktemp("src")
    copied(image(), source)
    wheels = tmp_path_factory.mktemp("wheels")
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(wheels),
    ]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    app = tmp_path_factory.mktemp("app")
    app.chmod(0o755)
    venv.create(app, with_pip=False, symlinks=True)
    packages = next(app.glob("lib/python3*/site-packages"))
    (packages / "lent.pth").write_text(f"{LENT.there}\n")
    (pip,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
    install = ["/app/bin/python", str(pip / "pip"), "install", "--no-compile"]
    command = [
        *install,
        "--no-deps",
        "--no-index",
        f"/wheels/{next(wheels.iterdir()).name}",
    ]
    mounts = [
        *lent(app, writable=True),
        Mount(wheels, "/wheels"),
        Mount(pip.parent, str(pip.parent)),
    ]
    root = tmp_path_factory.mktemp("building")
    installed = inside(command, {}, mounts, root, confined=False)
    subprocess.run(installed, check=True, capture_output=True)
    return app


def lent(app: Path, *, writable: bool = False) -> list[Mount]:
    """Return what the environment of the image leads to."""
    return [
        *python_of_the_machine(),
        LENT,
        Mount(app, "/app", writable),
    ]


@pytest.fixture
async def worker(
    app: Path, deployed: Emulator, tmp_path: Path
) -> AsyncIterator[Container]:
    """Run the image's entry point in the image's environment."""
    ours = ("AWS_", "PIECEWORK_")
    given = {k: v for k, v in os.environ.items() if k.startswith(ours)}
    command = [*entry_point(), "--pipelines", "piecework_examples.quickstart"]
    container = await start(command, given, lent(app), tmp_path / "root")
    yield container
    await container.kill()


async def test_the_worker_does_a_job_unprivileged_on_a_read_only_root(
    worker: Container,
) -> None:
    ref = JobRef("default", "job-1")

    async def inputs() -> AsyncIterator[ChunkInput]:
        for text in ("one two", "three"):
            yield ChunkInput(text, Paragraph(text=text).model_dump_json().encode())

    async with connect(load_settings()) as rt:
        await submit(
            rt, Submission(ref, word_count.declared, "test", "tester", None), inputs()
        )
        async with asyncio.timeout(30):
            while not (job := await rt.jobs.read(ref)) or not job.status.ended:
                assert worker.process.returncode is None
                await asyncio.sleep(0.05)
    facts = worker.facts()
    healthy = await worker.run(*health_check())
    probe = await worker.run("python", "-c", PROBE)

    assert JobStatus.SUCCEEDED is job.status
    assert [UID] * 4 == facts["Uid"].split()
    assert {"0" * 16} == {facts[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd")}
    assert "1" == facts["NoNewPrivs"]
    assert (0, "healthy") == healthy
    assert ["OSError 30"] * 3 + ["written"] == json.loads(probe[1])
    assert 0 == await worker.stop()
