"""BM25 against values worked out by hand."""

from __future__ import annotations

import math

import pytest

from piecework_examples.contract_review.bm25 import Bm25

INDEX = Bm25.of([["fee", "fee", "term"], ["term"], ["law", "court"]])


def test_a_rare_term_tells_more_than_a_common_one() -> None:
    # N = 3: fee stands in 1 document, term in 2.
    assert math.log(1 + 2.5 / 1.5) == pytest.approx(INDEX.idf("fee"))
    assert math.log(1 + 1.5 / 2.5) == pytest.approx(INDEX.idf("term"))


def test_a_score_follows_the_formula() -> None:
    # tf = 2, |d| = 3, avgdl = 2: norm = 1.2 * (0.25 + 0.75 * 1.5) = 1.65
    expected = math.log(1 + 2.5 / 1.5) * 2 * 2.2 / (2 + 1.65)
    assert expected == pytest.approx(INDEX.score(["fee"], 0))


def test_a_score_is_the_sum_of_its_terms_and_each_counts_once() -> None:
    weights = INDEX.weigh(["fee", "term", "fee", "unknown"], 0)
    assert {"fee", "term"} == weights.keys()
    assert sum(weights.values()) == pytest.approx(INDEX.score(["fee", "term"], 0))


def test_a_document_without_the_terms_scores_nothing() -> None:
    assert 0 == INDEX.score(["fee"], 2)


def test_an_empty_index_has_no_average() -> None:
    assert 0 == Bm25.of([]).average_length
