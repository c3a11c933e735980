"""The lines before and after the story."""

from __future__ import annotations

import platform

from orchestrator.demo.machine import FAULT_RATE, DemoProcesses
from orchestrator.demo.screen import Screen


def report_environment(processes: DemoProcesses, screen: Screen) -> None:
    """Report the environment of the demo."""
    screen.print_line("demo", "a contract is reviewed, and not everything goes well")
    emulator = processes.emulator
    screen.print_line(
        "doctor",
        f"python {platform.python_version()} ok   MiniStack {emulator.version} "
        f"at {emulator.endpoint} ok",
    )
    screen.print_line(
        "",
        f"model: Bedrock stub at {processes.urls['bedrock']}   no AWS credentials used",
    )


def report_faults(screen: Screen, seed: int) -> None:
    """Report the faults that the demo injects."""
    screen.print_line(
        "faults",
        f"{FAULT_RATE:.0%} of calls fail: 429, 503, a truncated answer or none; "
        f"1 of 3 workers is killed during a chunk; clause 17 is too long   seed {seed}",
    )


def report_next_steps(screen: Screen) -> None:
    """Report three commands to try next."""
    screen.print_line("", "")
    screen.print_line("try", "piecework demo --seed 7 --keep      then read the tables")
    screen.print_line(
        "",
        "piecework up; piecework-worker --pipelines examples.contract_review   "
        "then kill the worker yourself",
    )
    screen.print_line(
        "",
        "piecework submit examples.contract_review:pipeline YOUR_CONTRACT.docx --wait",
    )
    screen.print_line("", "")
