"""The pages of the project, as the tests of them read them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
README = ROOT / "README.md"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")

each_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: str(page.relative_to(ROOT))
)


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return FENCE.sub("", page.read_text("utf-8"))


def fenced(page: Path, language: str) -> list[str]:
    """Return the blocks of code in a language."""
    found = FENCE.findall(page.read_text("utf-8"))
    return [body for name, body in found if name == language]


def spans(page: Path) -> list[str]:
    """Return what is set as code within sentences."""
    return SPAN.findall(prose(page))


def shell_lines(page: Path) -> list[str]:
    """Return the lines of the shell blocks, continued ones joined."""
    blocks = fenced(page, "sh")
    return [li for body in blocks for li in body.replace("\\\n", " ").splitlines()]
