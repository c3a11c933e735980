from __future__ import annotations

import re
from pathlib import Path

import pytest

from piecework.codes import LAYERS, REGISTRY
from tests.docs.pages import ROOT, SPAN, each_page, prose, spans

LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
#: What looks like one of our files: a known folder, or a page at the top.
FOLDERS = (
    "piecework",
    "workers",
    "orchestrator",
    "simulation",
    "examples",
    "bench",
    "infra",
    "localstack",
    "requirements",
    "docs",
    "tests",
    ".ci",
)
FILE = re.compile(rf"(?:{'|'.join(map(re.escape, FOLDERS))})/[\w./-]*|[A-Z]+\.md")
CODE = re.compile(rf"(?:{'|'.join(LAYERS)})\.[a-z0-9_]+\.[a-z0-9_]+")


@each_page
def test_every_file_that_is_named_exists(page: Path) -> None:
    named = {span for span in spans(page) if FILE.fullmatch(span)}
    named |= {f"piecework/{s}" for s in modules_of_the_table(page)}

    assert [] == sorted(name for name in named if not (ROOT / name).exists())


def modules_of_the_table(page: Path) -> set[str]:
    """Return the files that the table of levels names inside `piecework/`."""
    lines = [li for li in prose(page).splitlines() if "in `piecework/`" in li]
    names = {name for line in lines for name in SPAN.findall(line)}
    return {name for name in names if name.endswith((".py", "/"))} - {"piecework/"}


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    inside = [link for link in LINK.findall(prose(page)) if "://" not in link]

    assert [] == [link for link in inside if not leads_somewhere(page, link)]


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target)


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", t).strip().lower().replace(" ", "-") for t in titles}


def test_every_decision_has_its_number_once() -> None:
    names = [path.name for path in sorted((ROOT / "docs/decisions").glob("*.md"))]
    numbers = [name[:4] for name in names]

    assert [f"{n:04d}" for n in range(1, len(names) + 1)] == numbers


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/decisions").glob("*.md")), ids=lambda page: page.stem
)
def test_a_decision_tells_context_choice_price_and_limits(page: Path) -> None:
    heads = re.findall(
        r"^\*\*(Context|Choice|Price|Limits)[.:]", prose(page), re.MULTILINE
    )
    heads += re.findall(r"^\*\*(Limits): ", prose(page), re.MULTILINE)

    assert {"Context", "Choice", "Price", "Limits"} == set(heads)


@each_page
def test_every_error_code_that_is_named_is_in_the_registry(page: Path) -> None:
    named = {code for span in spans(page) for code in [span] if CODE.fullmatch(code)}
    files = {code for code in named if code.endswith((".py", ".md", ".yaml"))}

    assert set() == named - files - set(REGISTRY)
