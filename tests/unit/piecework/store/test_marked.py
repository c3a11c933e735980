from __future__ import annotations

from piecework.store.claims import CLAIM, START_ATTEMPT
from piecework.store.serialization import marked_names


def test_the_marked_names_of_all_expressions_are_found_once_each() -> None:
    names = marked_names("SET #status = :s, gen = :g", "#status = :t AND #data = :d")
    assert {"#status": "status", "#data": "data"} == names


def test_the_claim_marks_what_it_has_to() -> None:
    assert {"#status": "status"} == marked_names(START_ATTEMPT, CLAIM)
