"""Which tests may catch a mutant: the narrowest first, then the scenarios."""

from __future__ import annotations

import re
from pathlib import Path

#: This test reads sources as text: it would detect the edit, not its effect.
READS_SOURCES = {"test_sources.py"}
#: The scenarios to run first, by a word of the mutant's path.
FIRST = {
    "reconcile": ["reconciler", "crashes", "cancel"],
    "reclaim": ["reconciler", "crashes"],
    "cancel": ["cancel"],
    "executor": ["claims", "crashes", "cancel"],
    "notifi": ["notify", "deadline"],
    "settle": ["jobs", "saga", "dead_letters", "breaker", "cancel", "costs"],
    "early_outcomes": ["crashes", "saga", "cancel"],
    "claim": ["claims", "crashes", "cancel"],
}


def narrow(root: Path, path: str) -> list[str]:
    """Return the test files that name a module, most mentions first."""
    module = Path(path).with_suffix("")
    if module.parts[1].startswith("piecework_"):
        module = module.relative_to(module.parts[0])  # the folder of an import root
    dotted = ".".join(module.parts)
    parent, name = ".".join(module.parts[:-1]), module.name
    names = re.compile(
        rf"\b{re.escape(dotted)}\b|from {re.escape(parent)} import .*\b{name}\b"
    )
    of_store = "piecework/store/" in path
    unit = (root / "tests" / "unit").rglob("test_*.py")
    store = (root / "tests" / "store").glob("test_*.py")
    found: list[tuple[float, str]] = []
    for file in [*store, *unit]:
        here = file.relative_to(root).as_posix()
        by_conftest = of_store and here.startswith("tests/store/")
        text = file.read_text()
        if file.name in READS_SOURCES or not (by_conftest or names.search(text)):
            continue
        found.append((-rank_test_file(text, file.name, name), here))
    return [here for _, here in sorted(found)]


def rank_test_file(text: str, file: str, name: str) -> float:
    """Return how likely a file tests a module: by its name, then by its words."""
    stem = name.rstrip("s")
    return 1000 * (stem in file) + text.count(stem)


def scenarios(root: Path, path: str) -> list[str]:
    """Return all scenarios, the likely ones first."""
    files = sorted((root / "tests" / "scenarios").glob("test_*.py"))
    here = [file.relative_to(root).as_posix() for file in files]
    words = next((FIRST[word] for word in FIRST if word in path), [])
    likely = [name for word in words for name in here if word in name]
    rest = [name for name in here if name not in likely]
    return [*dict.fromkeys(likely), *rest]
