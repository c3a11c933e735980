"""Read the pages of the project, for the tests that compare them with the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOP = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
    *("AGENTS.md", "CODE_OF_CONDUCT.md", ".github/pull_request_template.md"),
)
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
README = ROOT / "README.md"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: The nodes of a drawing that are not states.
ENDS = {"start", "end"}
EDGE = re.compile(r"^ +(\w+) -> (\w+)", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")


def on_every_page(findings: Callable[[Path], Iterable[object]]) -> list[str]:
    """Collect what a check finds on the pages, each with the name of its page."""
    return [
        f"{page.relative_to(ROOT)}: {finding}"
        for page in PAGES
        for finding in findings(page)
    ]


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return FENCE.sub("", page.read_text("utf-8"))


def fenced(page: Path, language: str) -> list[str]:
    """Return the blocks of code in a language."""
    found = FENCE.findall(page.read_text("utf-8"))
    return [body for name, body in found if name == language]


def spans(page: Path) -> list[str]:
    """Return the code spans within sentences."""
    return SPAN.findall(prose(page))


def shell_lines(page: Path) -> list[str]:
    """Return the lines of the shell blocks, with continued lines joined."""
    blocks = fenced(page, "sh")
    return [li for body in blocks for li in body.replace("\\\n", " ").splitlines()]


def edges(drawing: str) -> set[tuple[str, str]]:
    """Return the edges of a drawing of the pages."""
    source = ROOT / "docs/drawings" / f"{drawing}.dot"
    return set(EDGE.findall(source.read_text("utf-8")))
