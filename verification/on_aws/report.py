"""The report of a run, for an issue: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from verification.on_aws.estimate import Estimate


@dataclass(slots=True)
class Step:
    """A step: its seconds, what it found, and why it failed; empty: it did not."""

    name: str
    seconds: float
    found: dict[str, Any]
    failure: str


@dataclass(slots=True)
class Report:
    """What is known of a run.

    Attributes:
        account: The number of the account, mostly hidden.
        stopped: Why it ended early; empty: it did not.
        left: What is left in the account.
    """

    account: str
    region: str
    env: str
    expected: Estimate
    budget: float
    steps: list[Step] = field(default_factory=list)
    stopped: str = ""
    left: list[str] = field(default_factory=list)
    removed_s: float = 0.0
    is_complete: bool = False

    def add(
        self, name: str, seconds: float, found: dict[str, Any], failure: str
    ) -> None:
        """Add a step."""
        self.steps.append(Step(name, round(seconds, 1), found, failure))

    @property
    def succeeded(self) -> bool:
        """Whether every step succeeded and nothing is left."""
        failed = any(step.failure for step in self.steps)
        # A removal by name has no steps.
        ran = self.is_complete or not (self.steps or self.stopped)
        return ran and not failed and not self.left

    def head(self) -> str:
        """Return what is about to happen."""
        parts = ", ".join(f"{n} {usd:.4f}" for n, usd in self.expected.steps.items())
        return (
            f"account {self.account}, {self.region}, environment {self.env}\n"
            f"estimate at most {self.expected.total:.4f} USD ({parts});"
            f" budget {self.budget:.2f} USD"
        )

    def last_line(self) -> str:
        """Return the figures."""
        figures = {
            "steps": len(self.steps),
            "failed": sum(bool(step.failure) for step in self.steps),
            "left": len(self.left),
            "complete": int(self.is_complete),
        }
        return " ".join(f"{name}={value}" for name, value in figures.items())

    def write(self, path: Path) -> None:
        """Write both forms."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {**asdict(self), "piecework": version("piecework")}
        text = json.dumps(document, indent=2, default=str)
        path.with_suffix(".json").write_text(f"{text}\n", "utf-8")
        path.with_suffix(".md").write_text(self.markdown(), "utf-8")

    def markdown(self) -> str:
        """Return the report for people."""
        where = f"account {self.account}, {self.region}, environment {self.env}"
        system = f"{platform.system()}, Python {platform.python_version()}"
        most = f"Estimate: at most {self.expected.total:.4f} USD."
        money = f"{most} Budget: {self.budget:.2f} USD."
        lines = [
            f"# Piecework {version('piecework')} on AWS",
            "",
            f"{where}; {system}.",
            money,
            "",
            "| step | seconds | result | found |",
            "| --- | --- | --- | --- |",
        ]
        for step in self.steps:
            found = ", ".join(f"{n} {short(v)}" for n, v in step.found.items())
            result = f"FAILED: {last_words(step.failure)}" if step.failure else "ok"
            lines.append(f"| {step.name} | {step.seconds} | {result} | {found} |")
        gone = "nothing is left" if not self.left else "left: " + ", ".join(self.left)
        lines += ["", f"Removed in {self.removed_s:.0f} s: {gone}."]
        if self.stopped:
            lines.append(f"It ended early: {self.stopped}.")
        return "\n".join(lines) + "\n"


def short(value: Any) -> str:
    """Return a value for a cell of a table."""
    if isinstance(value, list):
        return str(len(value))
    return one_line(str(value))


def last_words(text: str) -> str:
    """Return the end of a failure, which has its cause, in one line."""
    return one_line(" ".join(text.split())[-300:])


def one_line(text: str) -> str:
    """Return a text without line breaks and bars, at most 300 characters of it."""
    return " ".join(text.split()).replace("|", "/")[:300]
