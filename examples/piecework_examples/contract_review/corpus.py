"""Real licence texts as contracts to review: `submit` takes the folder that this fills.

    python -m piecework_examples.contract_review.corpus DIR [--limit 50]

The texts belong to their authors; the project contains none of them. They come from the
optional package licensedcode-data or, on Debian, from the system's common licences.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from piecework import Document, PermanentError, PieceworkError

PACKAGE: Final = "licensedcode"  # as licensedcode-data is imported
DEBIAN: Final = Path("/usr/share/common-licenses")
SHORTEST: Final = 1_500  # characters; below are one-paragraph notices


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the texts to a folder; return the exit code."""
    options = argparse.ArgumentParser(
        prog="python -m piecework_examples.contract_review.corpus"
    )
    options.add_argument("directory", type=Path)
    options.add_argument("--limit", type=int, default=50)
    given = options.parse_args(arguments)
    try:
        documents = list(islice(licences(), given.limit))
    except PieceworkError as error:
        print(f"{error.code}: {error} {error.next_step}", file=sys.stderr)
        return 2
    given.directory.mkdir(parents=True, exist_ok=True)
    for document in documents:
        (given.directory / document.name).write_text(document.text, "utf-8")
    print(f"{len(documents)} texts in {given.directory}")
    return 0


def licences(roots: Sequence[Path] | None = None) -> Iterator[Document]:
    """Yield the licence texts of the first place that has any, by name.

    Raises:
        PermanentError: The place does not exist.
    """
    for root in known_places() if roots is None else roots:
        documents = _texts(root)
        first = next(documents, None)
        if first is not None:
            yield first
            yield from documents
            return
    raise PermanentError(
        "No licence texts were found on this machine.",
        code="input.corpus.missing",
        next_step="Install them with `pip install licensedcode-data`.",
    )


def known_places() -> list[Path]:
    """Return where licence texts may be: the package first, then Debian's folder."""
    found = importlib.util.find_spec(PACKAGE)
    folders = (found.submodule_search_locations or ()) if found else ()
    return [*(Path(at) / "data" / "licenses" for at in folders), DEBIAN]


def _texts(root: Path) -> Iterator[Document]:
    for path in sorted(root.rglob("*")) if root.is_dir() else ():
        is_text = path.suffix == ".LICENSE" or path.parent == DEBIAN
        if not is_text or path.is_symlink() or not path.is_file():
            continue
        text = _body(path.read_text("utf-8", errors="replace"))
        if len(text) >= SHORTEST:
            yield Document(
                f"{path.stem if path.suffix == '.LICENSE' else path.name}.txt", text
            )


def _body(text: str) -> str:
    """Return a text without the YAML that the package puts before it."""
    if text.startswith("---\n"):
        _, _, rest = text.removeprefix("---\n").partition("\n---\n")
        return rest.strip() or text
    return text


if __name__ == "__main__":
    sys.exit(main())
