"""What the environment decides."""

from __future__ import annotations

import pytest

from piecework import PermanentError
from piecework_examples.contract_review.config import (
    Config,
    from_environment,
)


def test_without_settings_the_rules_answer() -> None:
    assert Config() == from_environment({})
    assert "rules" == Config().model


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REVIEW_MODEL", "oracle"),
        ("REVIEW_TIMEOUT_S", "soon"),
        ("REVIEW_TIMEOUT_S", "0"),
        ("REVIEW_CALLS", "22"),
    ],
)
def test_a_setting_without_meaning_is_named(name: str, value: str) -> None:
    with pytest.raises(PermanentError, match=name) as caught:
        from_environment({name: value})
    assert "config.review.invalid" == caught.value.code
    assert name in caught.value.next_step
