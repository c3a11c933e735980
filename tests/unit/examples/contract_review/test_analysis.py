"""The eleven specialists, each on clauses written for these tests."""

from __future__ import annotations

import pytest

from piecework_examples.contract_review.analysis import analyse
from piecework_examples.contract_review.findings import Severity
from piecework_examples.contract_review.playbook import specialists

RISKS = [
    ("liability-cap", "critical", "The buyer bears responsibility without any limit."),
    (
        "liability-cap",
        "high",
        "The vendor's total liability shall be capped at one euro.",
    ),
    ("liability-cap", "high", "The licensor shall have no liability of any kind."),
    (
        "liability-cap",
        "medium",
        "Liability is limited to the fees paid in three months.",
    ),
    ("unilateral-termination", "high", "The vendor may cancel this plan at any time."),
    ("unilateral-termination", "medium", "A cancellation fee of 900 euros is due."),
    ("renewal", "high", "It will automatically renew unless refused 90 days before."),
    ("renewal", "medium", "The subscription renews automatically each year."),
    ("indemnity", "high", "The client indemnifies the vendor even if caused by it."),
    ("indemnity", "medium", "The client shall defend, indemnify and pay the vendor."),
    ("ip-assignment", "high", "The writer hereby assigns any invention he makes."),
    ("ip-assignment", "high", "You grant a perpetual licence to use your content."),
    (
        "ip-assignment",
        "medium",
        "The writer assigns the copyright; he shall assign title.",
    ),
    ("ip-assignment", "medium", "All feedback you give becomes our property."),
    ("payment-terms", "high", "Overdue sums bear interest of 2% per month."),
    ("payment-terms", "medium", "A late fee applies."),
    ("payment-terms", "medium", "Deposits are non-refundable."),
    ("payment-terms", "medium", "We may raise the prices at any time."),
    ("payment-terms", "low", "Pay within ten days of the date of the invoice."),
    ("data-gaps", "high", "The processor may use sub-processors without notice."),
    ("data-gaps", "high", "Personal data may be transferred outside the country."),
    ("data-gaps", "high", "The processor may report a security breach to the client."),
    ("data-gaps", "medium", "It may keep personal data for as long as it wishes."),
    ("venue", "high", "The customer waives trial by jury."),
    ("venue", "high", "The arbitrator is appointed by the supplier."),
    ("venue", "medium", "All claims go to binding arbitration."),
    ("venue", "medium", "The law of Bermuda applies."),
    ("transfer", "high", "The vendor may assign this contract without consent."),
    ("transfer", "medium", "Consent may be withheld for any reason."),
    ("transfer", "medium", "A change of control is deemed an assignment."),
    ("survival", "high", "The duty of secrecy lasts forever."),
    ("survival", "medium", "Secrecy survives for ten years."),
    ("survival", "medium", "All provisions of this contract survive its end."),
    ("vagueness", "medium", "The vendor may refuse in its sole discretion."),
    ("vagueness", "low", "The vendor will use reasonable efforts."),
]
FAIR = [
    ("liability-cap", "Liability for fraud is unlimited."),
    (
        "liability-cap",
        "Costs, including without limitation liability insurance, are met.",
    ),
    ("unilateral-termination", "Either party may terminate at any time."),
    ("renewal", "The parties may renew this contract by a signed paper."),
    ("indemnity", "Each party shall indemnify the other."),
    ("ip-assignment", "No licence is granted, perpetual or other, to the data."),
    ("payment-terms", "Overdue sums bear interest of 2% per year."),
    ("data-gaps", "The processor shall report a security breach within two days."),
    ("data-gaps", "The supplier may transfer goods outside the country."),
    ("venue", "The courts of Paris have jurisdiction."),
    ("transfer", "Neither party may assign this contract without consent."),
    ("survival", "Trade secrets are kept confidential forever."),
    ("vagueness", "The vendor shall deliver on Monday."),
]


@pytest.mark.parametrize(("specialist", "severity", "text"), RISKS)
def test_a_risk_is_found_with_its_severity(
    specialist: str, severity: str, text: str
) -> None:
    found = analyse(text, specialist)
    assert Severity(severity) == found[0].severity


@pytest.mark.parametrize(("specialist", "text"), FAIR)
def test_a_fair_clause_raises_no_alarm(specialist: str, text: str) -> None:
    assert [] == analyse(text, specialist)


def test_every_rule_of_the_playbook_is_tried_above() -> None:
    tried = {(s, f.rule) for s, _, text in RISKS for f in analyse(text, s)}
    known = {(s.id, rule.id) for s in specialists().values() for rule in s.rules}
    assert set() == known - tried
    assert 11 == len(specialists())


def test_a_finding_quotes_the_sentence_at_its_place_and_the_words_that_fired() -> None:
    text = "Prices are fair. The vendor may act in its sole discretion. It is kind."
    (finding,) = analyse(text, "vagueness")
    assert "The vendor may act in its sole discretion." == finding.quote
    assert finding.quote == text[finding.start : finding.end]
    assert ("sole discretion",) == finding.fired


def test_one_risk_is_told_once_by_its_worst_rule() -> None:
    text = "It will automatically renew unless refused ninety days before the end."
    assert ["long-notice"] == [finding.rule for finding in analyse(text, "renewal")]


def test_two_risks_of_one_sentence_are_both_told() -> None:
    text = (
        "The processor may engage sub-processors without consent and may transfer "
        "personal data to any country."
    )
    found = {finding.rule for finding in analyse(text, "data-gaps")}
    assert {"sub-processors", "transfers"} == found


def test_a_long_sentence_is_quoted_around_what_fired() -> None:
    text = f"{'word ' * 200}in its sole discretion {'word ' * 200}ends."
    (finding,) = analyse(text, "vagueness")
    assert finding.quote == text[finding.start : finding.end]
    assert "sole discretion" in finding.quote
    assert len(finding.quote) <= 400


def test_words_that_fired_are_whole() -> None:
    text = f"The writer hereby assigns {'everything ' * 30}and any invention."
    (finding,) = analyse(text, "ip-assignment")
    last_words = [words.split()[-1] for words in finding.fired]
    assert ["everything", "invention"] == last_words
