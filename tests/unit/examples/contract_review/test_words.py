"""Words, stems and sentences."""

from __future__ import annotations

import pytest

from piecework_examples.contract_review.words import (
    content_stems,
    sentences,
    stem,
    words,
)


@pytest.mark.parametrize(
    "family",
    [
        "terminate terminated terminates terminating termination",
        "assign assigns assigned assigning",
        "party's party",
        "liability liabilities",
        "invoice invoices invoiced invoicing",
    ],
)
def test_the_forms_of_a_word_share_a_stem(family: str) -> None:
    assert 1 == len({stem(word) for word in family.split()})


def test_a_short_word_keeps_its_ending() -> None:
    assert ["fees", "as", "is"] == [stem(word) for word in ("fees", "as", "is")]


def test_a_word_knows_where_it_stands() -> None:
    text = "hold harmless"
    assert ["hold", "harmless"] == [text[w.start : w.end] for w in words(text)]


def test_common_words_carry_no_meaning() -> None:
    assert ("court",) == content_stems("any of the courts")


def test_sentences_end_at_full_stops_semicolons_and_paragraphs() -> None:
    text = "It costs 1.5 per cent. Pay now; We wait.\n\nThe end"
    parts = [text[start:end] for start, end in sentences(text)]
    assert ["It costs 1.5 per cent.", "Pay now;", "We wait.", "The end"] == parts
