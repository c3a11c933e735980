"""Scoring a clause in a category."""

from __future__ import annotations

import pytest

from piecework_examples.contract_review.findings import CategoryScore
from piecework_examples.contract_review.playbook import categories
from piecework_examples.contract_review.scoring import GENERAL, THRESHOLD, choose, score

# Written for this test; none of them stands in the playbook or in a contract.
CLAUSES = {
    "liability": "In no event is the vendor's aggregate liability more than the price.",
    "indemnity": "The buyer will defend and indemnify the seller against claims.",
    "termination": "Either side may terminate this contract on notice at renewal.",
    "confidentiality": "Trade secrets are confidential; do not disclose them.",
    "ip": "Copyright and patents remain with the licensor; no licence is implied.",
    "payment": "Invoices are due in a month. Late payment bears interest.",
    "warranty": "The goods conform to the specification; no other warranty is given.",
    "data-protection": "Personal data of data subjects is encrypted by the processor.",
    "disputes": "The laws of Ontario apply; the courts there have jurisdiction.",
    "assignment": "You cannot assign or transfer this contract without consent.",
    "risk": "Force majeure, such as flood or war, excuses. Keep insurance.",
    "restrictive": "The agent will not compete, nor solicit staff, in the territory.",
}


def scores(heading: str, text: str) -> list[CategoryScore]:
    return [score(heading, text, name) for name in categories()]


@pytest.mark.parametrize("category", CLAUSES)
def test_a_plain_clause_finds_its_category_without_a_heading(category: str) -> None:
    best = max(scores("", CLAUSES[category]), key=lambda s: s.score)
    assert category == best.category


def test_a_score_says_which_words_fired_as_they_stand() -> None:
    said = score("", "The Supplier shall INDEMNIFY and hold harmless.", "indemnity")
    assert {"indemnify", "hold harmless"} <= set(said.fired)


def test_a_heading_counts_more_than_the_text() -> None:
    named = score("Arbitration", "Some words.", "disputes")
    said = score("Some words", "Arbitration.", "disputes")
    assert named.score > said.score


def test_a_clause_about_nothing_known_is_general() -> None:
    chosen = choose(
        scores("Miscellaneous", "Words in the singular include the plural.")
    )
    assert GENERAL == chosen


def test_the_best_score_has_to_reach_the_threshold() -> None:
    low = CategoryScore(category="ip", score=THRESHOLD - 0.01)
    assert GENERAL == choose([low])
    assert "ip" == choose([low, CategoryScore(category="ip", score=THRESHOLD)])
    assert GENERAL == choose([])


def test_the_playbook_is_as_rich_as_it_says() -> None:
    known = categories()
    assert 12 == len(known)
    assert all(20 <= sum(map(len, c.lexicon.values())) <= 40 for c in known.values())
    assert all(3 <= len(c.prototypes) <= 5 for c in known.values())
