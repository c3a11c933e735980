"""Check that the mutants are valid, different, and of every part."""

from __future__ import annotations

import ast
from pathlib import Path

from verification.mutants.__main__ import all_mutants
from verification.mutants.equivalent import EQUIVALENT
from verification.mutants.guards import PATHS
from verification.mutants.open_files import kind_of_list, open_lists
from verification.mutants.paths import sources

ROOT = Path(__file__).parents[2]
MUTANTS = all_mutants(ROOT)
CONDITIONS = [mutant for mutant in MUTANTS if mutant.kind == "clause"]
GUARDS = [mutant for mutant in MUTANTS if mutant.kind == "guard"]


def test_every_mutant_is_valid_and_differs() -> None:
    for mutant in MUTANTS:
        source = (ROOT / mutant.path).read_bytes()
        changed = ast.parse(mutant.apply(source))
        assert ast.dump(changed) != ast.dump(ast.parse(source)), mutant


def test_there_are_mutants_of_every_file_with_conditions_or_guards() -> None:
    writers = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "piecework" / "store").glob("*.py")
        if "condition=" in path.read_text() and path.name != "table.py"
    }
    assert writers == {mutant.path for mutant in CONDITIONS}
    without = set(PATHS) - {mutant.path for mutant in GUARDS}
    assert without == set()


def test_every_room_has_sources_and_every_kind_is_tried_outside_the_store() -> None:
    assert [] == [path for path in sources(ROOT) if not (ROOT / path).is_file()]
    outside = [m.kind for m in MUTANTS if not m.path.startswith("piecework/store/")]
    assert {"guard", "order", "await", "last"} == set(outside)
    assert len(outside) >= 60


def test_no_file_is_open_without_mutants_and_the_store_never_is() -> None:
    known = {(kind_of_list(mutant), mutant.path) for mutant in MUTANTS}
    assert set() == {*open_lists()} - known
    assert [] == [path for _, path in open_lists() if "/store/" in path]


def test_what_is_said_to_be_equivalent_exists() -> None:
    assert set(EQUIVALENT) <= {mutant.key for mutant in MUTANTS}
