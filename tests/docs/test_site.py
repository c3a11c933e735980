"""The site: it has every page, its links lead somewhere, it needs no other host."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT

SECTIONS = [
    *("Start", "Guides", "Operate", "Reference", "Evidence", "Decisions", "Project"),
]
LOADED = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(https?://[^\" >]+)"
)
PICTURE = re.compile(r"<img\b[^>]*src=\"([^\":]+\.svg)\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; it fails on a page, a link or an anchor that is missing."""
    folder = tmp_path_factory.mktemp("site") / "built"
    built = subprocess.run(
        [sys.executable, str(ROOT / "docs/reference/build_site.py"), str(folder)],
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == built.returncode, built.stderr
    return folder


def test_the_site_is_built_without_a_warning(site: Path) -> None:
    assert (site / "index.html").is_file()
    assert (site / "reference/settings.html").is_file()


def test_the_site_loads_nothing_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    loaded = {
        f"{page.name}: {url}"
        for page in pages
        for url in LOADED.findall(page.read_text("utf-8"))
    }

    assert len(pages) >= 50
    assert set() == loaded


def test_each_picture_of_a_page_is_on_the_site(site: Path) -> None:
    pictures = {
        (page.parent / url).resolve()
        for page in site.rglob("*.html")
        for url in PICTURE.findall(page.read_text("utf-8"))
    }
    drawings = {path.stem for path in (ROOT / "docs/drawings").glob("*.dot")}

    assert drawings <= {path.stem for path in pictures}
    assert [] == [path for path in pictures if not path.is_file()]


def test_the_site_has_its_sections_in_their_order() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    names = [name for section in config["nav"] for name in section]

    assert SECTIONS == names[: len(SECTIONS)]
