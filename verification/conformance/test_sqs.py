"""Compare SQS on the model, on the emulators, and as AWS documents it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from verification.conformance import (  # noqa: F401 -- registers the probes
    sqs_differences,
    sqs_probes,
    sqs_request_probes,
)
from verification.conformance.probe import probes_of, surprises
from verification.conformance.subjects import SUBJECTS

#: aiohttp warns about the largest messages.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_answer_is_as_aws_documents_it_or_a_known_difference(
    subject: str, answers: Callable[[str, str], dict[str, str]]
) -> None:
    assert {} == surprises(subject, answers(subject, "sqs"))


def test_there_are_probes_to_be_asked() -> None:
    assert len(probes_of("sqs")) > 40
