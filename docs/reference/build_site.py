"""Build the site of the documentation into a folder, and check every link of it.

The generator reads one folder and a plain list of pages. So this program copies docs/
and the pages at the top of the repository, leads links to their places on the site, and
writes the folders of `nav` out. Any generator that reads `mkdocs.yml` builds the copy.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from navigation import CONFIG, OUTSIDE, ROOT, sections

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
#: A picture on a page at the top: its path on the site starts below `docs/`.
PICTURE = re.compile(r"(!\[[^\]]+\]\()docs/")
KEPT_BACK = shutil.ignore_patterns("*.dot", "*.py", "__pycache__")


def main(words: Sequence[str]) -> int:
    """Build the site into the named folder, or into site/; return 1 on a bad link."""
    target = Path(words[0]) if words else ROOT / "site"
    if wrong := [*missing_pages(), *unlisted_pages()]:
        sys.stderr.writelines(f"{line}\n" for line in wrong)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        prepare(copy)
        done = build(copy)
        if done.returncode:
            sys.stderr.write(f"{done.stdout}{done.stderr}")
            return 1
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(copy / "site", target)
    return 0


def build(copy: Path) -> subprocess.CompletedProcess[str]:
    """Run the generator on a copy; it fails on a missing link or anchor."""
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    return subprocess.run(  # noqa: S603, TID251 -- our own pages, by the locked generator
        command, cwd=copy, capture_output=True, text=True, check=False
    )


def missing_pages() -> list[str]:
    """Return what `nav` lists and the repository does not have."""
    return [
        f"mkdocs.yml lists {each.name}, and {each.place} does not exist"
        for listed in sections().values()
        for each in listed
        if not (ROOT / each.place).is_file()
    ]


def unlisted_pages() -> list[str]:
    """Return the pages that `nav` does not list."""
    listed = {each.place for part in sections().values() for each in part}
    pages = [*OUTSIDE, *(page.relative_to(ROOT).as_posix() for page in pages_inside())]
    return [f"mkdocs.yml does not list {page}" for page in pages if page not in listed]


def pages_inside() -> list[Path]:
    """Return the pages of docs/."""
    return sorted((ROOT / "docs").rglob("*.md"))


def prepare(copy: Path) -> None:
    """Copy the pages as the generator needs them, with its configuration."""
    docs = copy / "docs"
    shutil.copytree(ROOT / "docs", docs, ignore=KEPT_BACK)
    for page in pages_inside():
        name = page.relative_to(ROOT).as_posix()
        (copy / name).unlink()
        write(name, docs / OUTSIDE.get(name, name.removeprefix("docs/")))
    for name in OUTSIDE:
        write(name, docs / OUTSIDE[name])
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text("utf-8"))
    config["nav"] = [
        {section: [{each.title: each.name} for each in listed]}
        for section, listed in sections().items()
    ]
    (copy / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")


def write(name: str, target: Path) -> None:
    """Write a page with its links as the site needs them."""
    folder = posixpath.dirname(name)
    text = (ROOT / name).read_text("utf-8")
    text = LINK.sub(lambda link: as_on_site(link, folder), text)
    target.write_text(text if folder else PICTURE.sub(r"\1", text), "utf-8")


def as_on_site(link: re.Match[str], folder: str) -> str:
    """Return a link as the site needs it; the text alone if the site has no target."""
    text, target = link.groups()
    path, hash_sign, anchor = target.partition("#")
    if "://" in target or not path:
        return link[0]
    place = posixpath.normpath(posixpath.join(folder, path))
    if (ROOT / place).is_dir():
        place = posixpath.join(place, "README.md")
    if not (ROOT / place).exists():
        return link[0]  # the generator names it
    if place in OUTSIDE:
        place = OUTSIDE[place]
    elif place.startswith("docs/"):
        place = place.removeprefix("docs/")
    else:
        return text
    here = folder.removeprefix("docs").strip("/")
    return f"[{text}]({posixpath.relpath(place, here or '.')}{hash_sign}{anchor})"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
