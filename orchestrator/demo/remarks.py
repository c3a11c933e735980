"""What is said before the story and after it."""

from __future__ import annotations

import platform

from orchestrator.demo.machine import FAULT_RATE, Machine
from orchestrator.demo.screen import Screen


def tell_doctor(machine: Machine, screen: Screen) -> None:
    """Say what the demo runs on."""
    screen.say("demo", "a contract is reviewed, and not everything goes well")
    emulator = machine.emulator
    screen.say(
        "doctor",
        f"python {platform.python_version()} ok   MiniStack {emulator.version} "
        f"at {emulator.endpoint} ok",
    )
    screen.say(
        "",
        f"model: Bedrock stub at {machine.urls['bedrock']}   no AWS credentials used",
    )


def tell_faults(screen: Screen, seed: int) -> None:
    """Say what will go wrong."""
    screen.say(
        "faults",
        f"{FAULT_RATE:.0%} of calls answer 429 or 503, come cut off or never, "
        f"1 of 3 workers is killed in mid-chunk, 1 poison clause (17)   seed {seed}",
    )


def tell_what_next(screen: Screen) -> None:
    """Name three things to try."""
    screen.say("", "")
    screen.say("try", "piecework demo --seed 7 --keep      then look into the tables")
    screen.say(
        "",
        "piecework up; piecework-worker --pipelines examples.contract_review   "
        "and kill it yourself",
    )
    screen.say(
        "",
        "piecework submit examples.contract_review:pipeline YOUR_CONTRACT.docx --wait",
    )
    screen.say("", "")
