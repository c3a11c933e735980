"""Hooks of the site: pages at the top of the repository, and links out of `docs/`.

mkdocs reads only `docs/`. The README, the changelog and the pages for contributors are
at the top of the repository; these hooks add them to the site as generated pages.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
#: Each page at the top of the repository, and its name on the site.
TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
#: A picture on a page at the top: its path on the site starts below `docs/`.
PICTURE = re.compile(r"(!\[[^\]]+\]\()docs/")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages at the top of the repository."""
    for source, name in TOP.items():
        text = (ROOT / source).read_text("utf-8")
        content = LINK.sub(lambda link: as_on_site(link, ""), text)
        content = PICTURE.sub(r"\1", content)
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links that leave `docs/` to the site, or keep their text alone."""
    if page.file.src_uri in TOP.values():
        return markdown
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    return LINK.sub(lambda link: as_on_site(link, folder), markdown)


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
        return text
    if place.startswith("docs/"):
        place = place.removeprefix("docs/")
    elif place in TOP:
        place = TOP[place]
    else:
        return text
    here = folder.removeprefix("docs").strip("/")
    return f"[{text}]({posixpath.relpath(place, here or '.')}{hash_sign}{anchor})"
