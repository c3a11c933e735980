"""Take a provider away under load, and print what that cost."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from piecework import telemetry
from piecework_orchestrator.demo.processes import demo_environment
from piecework_orchestrator.embedded import deploy
from tests.own_emulator import own_emulator
from verification.outage.drill import drill
from verification.soak.site import aws


def main() -> None:
    """Run the drill on an AWS of its own; end with 1 where it cost an attempt."""
    with tempfile.TemporaryDirectory() as folder, own_emulator() as emulator:
        seen = demo_environment(os.environ, Path(folder)) | aws(emulator.endpoint)
        os.environ.clear()
        os.environ.update(seen)
        deploy.deploy_embedded(emulator, seen["PIECEWORK_APP"], seen["PIECEWORK_ENV"])
        telemetry.configure("error")
        figures = asyncio.run(drill())
    line = " ".join(f"{name}={value}" for name, value in figures.facts.items())
    sys.stdout.write(f"{line}\n")
    sys.exit(not figures.kept)


if __name__ == "__main__":
    main()
