"""Check that the mutants are valid, different, and of every part."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from verification.mutants.__main__ import all_mutants
from verification.mutants.equivalent import EQUIVALENT
from verification.mutants.grammar import removals
from verification.mutants.guards import PATHS
from verification.mutants.last import last_mutants
from verification.mutants.rooms import ROOMS, sources
from verification.mutants.sequence import sequence_mutants

ROOT = Path(__file__).parents[2]
MUTANTS = all_mutants(ROOT)
CONDITIONS = [mutant for mutant in MUTANTS if mutant.kind == "clause"]
GUARDS = [mutant for mutant in MUTANTS if mutant.kind == "guard"]


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("a = :a", ["a = :a"]),
        ("a = :a AND b = :b", ["a = :a", "b = :b"]),
        ("f(a) OR a < :a", ["f(a)", "a < :a"]),
        (
            "a = :a AND (f(b) OR c = :c)",
            ["a = :a", "(f(b) OR c = :c)", "f(b)", "c = :c"],
        ),
        (
            "a IN (:x, :y)",
            ["a IN (:x, :y)", ":x of a IN (:x, :y)", ":y of a IN (:x, :y)"],
        ),
    ],
)
def test_each_part_is_dropped_once(condition: str, parts: list[str]) -> None:
    assert parts == [part for part, _ in removals(condition)]


def test_a_dropped_conjunct_always_holds_and_a_dropped_alternative_never() -> None:
    assert dict(removals("a = :a AND b = :b"))["a = :a"] == (
        "(a = :a OR NOT (a = :a)) AND b = :b"
    )
    assert dict(removals("a = :a OR b = :b"))["b = :b"] == (
        "a = :a OR (b = :b AND NOT (b = :b))"
    )


def test_a_name_stands_for_what_its_own_module_says() -> None:
    of_claims = [m.what for m in CONDITIONS if m.scope in {"CLAIM", "RECOVER"}]
    assert "without `retry_at <= :now`" in of_claims
    assert not any("state" in what for what in of_claims)


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


PLANTED = """
async def act(self, chunks):
    asked_at = self.clock()
    reply = await self.ask(chunks[0:PAGE], all=not chunks)
    await self.write(reply)
    return [found for found in reply.failed]
"""


def test_each_kind_finds_its_place_by_the_structure_of_the_source(
    tmp_path: Path,
) -> None:
    for room in ROOMS:
        folder = tmp_path / room
        (folder.parent if folder.suffix else folder).mkdir(parents=True, exist_ok=True)
        (folder if folder.suffix else folder / "some.py").write_text("")
    (tmp_path / "piecework/jobs/renamed.py").write_text(PLANTED)
    found = [*sequence_mutants(tmp_path), *last_mutants(tmp_path)]
    asked, reply = PLANTED.strip().splitlines()[1:3]
    assert {
        f"order: `{reply.strip()}` before `{asked.strip()}`",
        "await: without `await self.write(reply)`",
        "last: one less than `PAGE`",
        "last: without the last of `reply.failed`",
    } == {f"{mutant.kind}: {mutant.what}" for mutant in found}


def test_every_room_has_sources_and_every_kind_is_tried_outside_the_store() -> None:
    assert [] == [path for path in sources(ROOT) if not (ROOT / path).is_file()]
    outside = [m.kind for m in MUTANTS if not m.path.startswith("piecework/store/")]
    assert {"guard", "order", "await", "last"} == set(outside)
    assert len(outside) >= 60


def test_what_is_said_to_be_equivalent_exists() -> None:
    assert set(EQUIVALENT) <= {mutant.key for mutant in MUTANTS}
