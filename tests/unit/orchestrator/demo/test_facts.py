"""The demo's constants match the example."""

from __future__ import annotations

from examples.contract_review import pipeline
from examples.contract_review.clauses import split
from examples.contract_review.config import LARGE_MODEL, SMALL_MODEL
from examples.contract_review.playbook import HERE, categories, specialists
from orchestrator.demo import count, machine, scenes, takeover
from piecework import Document


def test_the_calls_of_a_chunk_match_the_playbook() -> None:
    effects = len(count.EFFECTS)
    expected = f"{len(categories())} categories + {len(specialists())} specialists"

    assert f"{expected} + {effects} to the add-in" == scenes.CALLS
    assert len(categories()) + len(specialists()) + effects == pipeline.calls_per_chunk


def test_models_and_stages_match_the_example() -> None:
    assert (SMALL_MODEL, LARGE_MODEL) == (machine.SMALL_MODEL, machine.LARGE_MODEL)
    assert takeover.PAID_STAGES <= {stage.name for stage in pipeline.stages}


def test_the_contract_has_22_clauses_and_the_17th_is_the_longest() -> None:
    text = (HERE / scenes.CONTRACT).read_text("utf-8")
    clauses = list(split(Document("msa", text)))

    assert 22 == len(clauses)
    assert 17 == max(clauses, key=lambda clause: len(clause.text)).number
