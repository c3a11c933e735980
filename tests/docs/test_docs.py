from __future__ import annotations

import re
from pathlib import Path

import pytest

from piecework.errors.codes import LAYERS, REGISTRY
from tests.docs.pages import PAGES, ROOT, SPAN, on_every_page, prose, spans
from tests.docs.test_words import PRODUCT, TESTS

LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
#: What looks like one of our files: a known folder, or a page at the top.
FOLDERS = (*PRODUCT, *TESTS, "requirements", ".ci")
FILE = re.compile(rf"(?:{'|'.join(map(re.escape, FOLDERS))})/[\w./-]*|[A-Z]+\.md")
CODE = re.compile(rf"(?:{'|'.join(LAYERS)})\.[a-z0-9_]+\.[a-z0-9_]+")


def missing_files(page: Path) -> list[str]:
    named = {span for span in spans(page) if FILE.fullmatch(span)}
    return sorted(name for name in named if not (ROOT / name).exists())


def test_every_file_that_is_named_exists() -> None:
    assert [] == on_every_page(missing_files)


@pytest.mark.parametrize(
    "package", ["piecework", "orchestrator/piecework_orchestrator"]
)
def test_the_table_of_levels_names_every_room_of_a_package(package: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = text.partition(f" of `{package}/`, from the bottom |")[2]
    rows = table.partition("\n\n")[0].splitlines()[2:]
    named = [name for line in rows for name in SPAN.findall(line)]
    rooms = [
        path.name if path.suffix else f"{path.name}/"
        for path in (ROOT / package).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    ]

    assert sorted({*rooms} - {"__init__.py", "__main__.py"}) == sorted(named)


def broken_links(page: Path) -> list[str]:
    inside = [link for link in LINK.findall(prose(page)) if "://" not in link]
    return [link for link in inside if not leads_somewhere(page, link)]


def test_every_link_leads_somewhere() -> None:
    assert [] == on_every_page(broken_links)


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


def missing_parts(page: Path) -> list[str]:
    if page.parent.name != "decisions":
        return []
    heads = re.findall(
        r"^\*\*(Context|Choice|Price|Limits)[.:]", prose(page), re.MULTILINE
    )
    return sorted({"Context", "Choice", "Price", "Limits"} - set(heads))


def test_a_decision_has_context_choice_price_and_limits() -> None:
    assert len([page for page in PAGES if page.parent.name == "decisions"]) >= 10
    assert [] == on_every_page(missing_parts)


def unknown_codes(page: Path) -> list[str]:
    named = {span for span in spans(page) if CODE.fullmatch(span)}
    files = {code for code in named if code.endswith((".py", ".md", ".yaml"))}
    return sorted(named - files - set(REGISTRY))


def test_every_error_code_that_is_named_is_in_the_registry() -> None:
    assert [] == on_every_page(unknown_codes)
