"""What `docs/infrastructure.md` says that the emulator cannot show."""

from __future__ import annotations

import re

from tests.infra.check.templates import CHECKOUT

PAGE = CHECKOUT / "docs" / "infrastructure.md"
HEADING = "## Not tested without AWS"
NAME = re.compile(r"`(AWS::[A-Za-z0-9:.]+)`")


def documented() -> set[str]:
    """Return the types and settings of the page's table."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition(HEADING)
    rows = (line for line in section.splitlines() if line.startswith("|"))
    return {name for row in rows for name in NAME.findall(row.split("|")[1])}
