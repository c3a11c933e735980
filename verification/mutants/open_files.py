"""Name the files in which some mutants survive, or were not tried.

`make mutants` leaves them out, and `--all` does not: the lists only get shorter. A file
leaves a list when each of its mutants is caught, or is equivalent.
"""

from __future__ import annotations

from collections.abc import Iterator

from verification.mutants.mutant import Mutant

#: Files whose guards are open.
GUARDS: list[str] = []
#: Files whose order, await and last mutants are open.
SEQUENCES: list[str] = []


def kind_of_list(mutant: Mutant) -> str:
    """Return which list would name the file of a mutant."""
    return "guards" if mutant.kind == "guard" else "sequences"


def open_lists() -> Iterator[tuple[str, str]]:
    """Yield the list and the path of each open file."""
    yield from (("guards", path) for path in GUARDS)
    yield from (("sequences", path) for path in SEQUENCES)


def is_open(mutant: Mutant) -> bool:
    """Return whether only `--all` tries a mutant."""
    return (kind_of_list(mutant), mutant.path) in set(open_lists())
