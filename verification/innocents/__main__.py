"""Put five guilty chunks among thirty, and count which chunks die of them."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from piecework import telemetry
from piecework_orchestrator.demo.processes import demo_environment
from piecework_orchestrator.embedded import deploy, environment, server
from verification.innocents.trial import trial
from verification.soak.site import aws


def main() -> None:
    """Run the trial on an AWS of its own; end with 1 where an innocent was harmed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        emulator = server.start(
            environment.ensure_environment(print), folder, "us-east-1"
        )
        try:
            seen = demo_environment(os.environ, folder) | aws(emulator.endpoint)
            os.environ.clear()
            os.environ.update(seen)
            deploy.deploy_embedded(
                emulator, seen["PIECEWORK_APP"], seen["PIECEWORK_ENV"]
            )
            telemetry.configure("error")
            figures = asyncio.run(trial(folder))
        finally:
            server.stop(emulator.pid, folder)
    line = " ".join(f"{name}={value}" for name, value in figures.facts.items())
    sys.stdout.write(f"{figures.letters}\n{line}\n")
    sys.exit(not figures.kept)


if __name__ == "__main__":
    main()
