"""List the pages by who reads them: docs/README.md and llms.txt, from `nav`.

`mkdocs.yml` has the sections and the titles. The first sentence of a page describes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "mkdocs.yml"
#: Each page that the site has from elsewhere, and its name on the site.
OUTSIDE = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CHANGELOG.md": "changelog.md",
}
PLACES = {name: source for source, name in OUTSIDE.items()}

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
#: What is not a sentence about the page: titles, tables, and where it is from.
NO_SENTENCE = re.compile(r"[#|!\-<]|Generated from|This page is generated")

INDEX_HEAD = """\
# All pages

`make docs` writes this page from `nav` in `mkdocs.yml`, with the first sentences.
A reader of the first week needs [the README](../README.md) and the pages under Start.
"""

LLMS_HEAD = """\
# Piecework

> Piecework runs Python jobs of thousands of slow, paid calls that fail, on queue
> workers over SQS and DynamoDB: claims by conditional updates, leases, two tiers of
> retries, dead letters with redrive, checkpoints, cancel and resume.

`make docs` writes this list. Begin with [the guide for agents](docs/agents.md).
"""


class Entry(NamedTuple):
    """A page of the site; `place` is its path in the repository."""

    title: str
    name: str
    place: str


def sections() -> dict[str, list[Entry]]:
    """Return the pages of each section in their order; folders with all their pages."""
    nav = yaml.safe_load(CONFIG.read_text("utf-8"))["nav"]
    return {
        section: list(entries(listed))
        for part in nav
        for section, listed in part.items()
    }


def entries(listed: str | list[dict[str, str]]) -> Iterator[Entry]:
    """Yield the pages that a part of `nav` stands for."""
    if isinstance(listed, str):
        pages = sorted((ROOT / "docs" / listed).glob("*.md"))
        for page in sorted(pages, key=lambda page: page.stem != "README"):
            yield entry(title_of(page), page.relative_to(ROOT / "docs").as_posix())
        return
    for each in listed:
        for title, name in each.items():
            yield from entries(name) if name.endswith("/") else [entry(title, name)]


def entry(title: str, name: str) -> Entry:
    """Return a page by its name on the site."""
    return Entry(title, name, PLACES.get(name, f"docs/{name}"))


def title_of(page: Path) -> str:
    """Return the title of a page."""
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")


def sentence_of(place: str) -> str:
    """Return the first sentence of a page, without its links.

    Raises:
        ValueError: The page has no sentence.
    """
    prose = FENCE.sub("", (ROOT / place).read_text("utf-8"))
    for line in prose.splitlines():
        if line.strip() and not NO_SENTENCE.match(line):
            plain = LINK.sub(r"\1", line)
            return re.split(r"(?<=[.?!])\s|:$", plain, maxsplit=1)[0].rstrip(".") + "."
    message = f"{place} has no sentence that describes it."
    raise ValueError(message)


def index_page() -> str:
    """Return the list of all pages: a table for each section, decisions by title."""
    parts = [INDEX_HEAD]
    for section, listed in sections().items():
        parts.append(f"\n## {section}\n\n")
        if section == "Decisions":
            parts += [f"- [{each.title}]({link(each)})\n" for each in listed]
            continue
        parts.append("| page | what it says |\n| --- | --- |\n")
        parts += [
            f"| [{each.title}]({link(each)}) | {sentence_of(each.place)} |\n"
            for each in listed
            if each.place != "docs/README.md"
        ]
    return "".join(parts)


def link(each: Entry) -> str:
    """Return the link from docs/README.md to a page."""
    inside = each.place.startswith("docs/")
    return each.place.removeprefix("docs/") if inside else f"../{each.place}"


def llms_page() -> str:
    """Return llms.txt: every page but the decisions, with its first sentence."""
    parts = [LLMS_HEAD]
    for section, listed in sections().items():
        if section != "Decisions":
            parts.append(f"\n## {section}\n\n")
            parts += [
                f"- [{each.title}]({each.place}): {sentence_of(each.place)}\n"
                for each in listed
                if each.place != "docs/README.md"
            ]
    return "".join(parts)
