"""Compare DynamoDB on the model, on the emulators, and as AWS documents it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from verification.conformance import (  # noqa: F401 -- they register what they hold
    dynamodb_batch_probes,
    dynamodb_condition_probes,
    dynamodb_differences,
    dynamodb_probes,
    dynamodb_read_probes,
    dynamodb_refused_probes,
    dynamodb_transaction_probes,
)
from verification.conformance.probe import probes_of, surprises
from verification.conformance.subjects import SUBJECTS


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_answer_is_as_aws_documents_it_or_a_known_difference(
    subject: str, answers: Callable[[str, str], dict[str, str]]
) -> None:
    assert {} == surprises(subject, answers(subject, "dynamodb"))


def test_there_are_probes_to_be_asked() -> None:
    assert len(probes_of("dynamodb")) > 40
