"""The demo's constants match the example."""

from __future__ import annotations

from piecework import Document
from piecework_examples.contract_review.clauses import split
from piecework_examples.contract_review.config import LARGE_MODEL, SMALL_MODEL
from piecework_examples.contract_review.playbook import HERE, categories, specialists
from piecework_examples.contract_review.review import pipeline
from piecework_orchestrator.demo import check, processes, run, watch


def test_the_calls_of_a_chunk_match_the_playbook() -> None:
    effects = len(check.EFFECTS)
    expected = f"{len(categories())} categories + {len(specialists())} specialists"

    assert f"{expected} + {effects} to the add-in" == run.describe_calls(run.MIN_CALLS)
    assert "104 readings by 11 specialists" in run.describe_calls(116)
    assert len(categories()) + len(specialists()) + effects == pipeline.calls_per_chunk


def test_models_and_stages_match_the_example() -> None:
    assert (SMALL_MODEL, LARGE_MODEL) == (processes.SMALL_MODEL, processes.LARGE_MODEL)
    assert watch.PAID_STAGES <= {stage.name for stage in pipeline.stages}


def test_the_contract_has_22_clauses_and_the_17th_is_the_longest() -> None:
    text = (HERE / run.CONTRACT).read_text("utf-8")
    clauses = list(split(Document("msa", text)))

    assert 22 == len(clauses)
    assert 17 == max(clauses, key=lambda clause: len(clause.text)).number
