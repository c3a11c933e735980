"""Which tests may catch a mutant: the narrowest first, then whole jobs."""

from __future__ import annotations

import re
from pathlib import Path

#: This test reads sources as text: it would detect the edit, not its effect.
READS_SOURCES = {"test_sources.py"}
#: Whole jobs on the simulated AWS, without faults: quick.
SIMULATED = ["test_requests.py", "test_small_slips.py", "test_times.py"]
#: The scenarios to run first, by a word of the mutant's path.
FIRST = {
    "reconcile": ["reconciler", "crashes", "cancel"],
    "takeovers": ["reconciler", "crashes"],
    "cancel": ["cancel"],
    "executor": ["claims", "crashes", "cancel"],
    "refusals": ["claims", "crashes", "cancel"],
    "notifi": ["notify", "deadline"],
    "settle": ["jobs", "saga", "dead_letters", "breaker", "cancel", "costs"],
    "early_outcomes": ["crashes", "saga", "cancel"],
    "claim": ["claims", "crashes", "cancel"],
}


def narrow(root: Path, path: str) -> list[str]:
    """Return the test files that name a module, then the others of its package.

    A test of a package may reach a module through another one.
    """
    whole = Path(path).with_suffix("")
    package = Path(*(part for part in whole.parent.parts if "piecework_" not in part))
    roots = 1 if whole.parts[1].startswith("piecework_") else 0
    module = Path(*whole.parts[roots:])
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
        if file.name in READS_SOURCES:
            continue
        here = file.relative_to(root)
        text = file.read_text()
        if names.search(text) or (of_store and here.parts[1] == "store"):
            found.append((-rank_test_file(text, file.name, name), here.as_posix()))
        elif here.parent == Path("tests", "unit", package):
            found.append((0, here.as_posix()))
    return [here for _, here in sorted(found)]


def rank_test_file(text: str, file: str, name: str) -> float:
    """Return how likely a file tests a module: by its name, then by its words."""
    stem = name.rstrip("s")
    return 1000 * (stem in file) + text.count(stem) + 1


def simulated(root: Path) -> list[str]:
    """Return the tests that run whole jobs on the simulated AWS."""
    folder = root / "tests" / "simulation"
    return [(folder / name).relative_to(root).as_posix() for name in SIMULATED]


def scenarios(root: Path, path: str) -> list[str]:
    """Return a death at each call, and all scenarios, the likely ones first."""
    files = sorted((root / "tests" / "scenarios").glob("test_*.py"))
    here = [file.relative_to(root).as_posix() for file in files]
    words = next((FIRST[word] for word in FIRST if word in path), [])
    likely = [name for word in words for name in here if word in name]
    rest = [name for name in here if name not in likely]
    deaths = [] if "store" in path else ["tests/simulation/test_crash_points.py"]
    return [*deaths, *dict.fromkeys(likely), *rest]
