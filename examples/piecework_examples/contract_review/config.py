"""What the environment decides: which model answers, and where the add-in is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from piecework import PermanentError

SMALL_MODEL: Final = "anthropic.small-review-v1:0"
LARGE_MODEL: Final = "anthropic.large-review-v1:0"
#: A score in each category, and one reading by each specialist.
MIN_CALLS: Final = 12 + 11


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of the example.

    Attributes:
        model: REVIEW_MODEL. `rules`: the analysts in this process; `bedrock`: a model
            behind Bedrock's Converse, at the endpoint that the AWS variables name.
        model_id: REVIEW_MODEL_ID.
        addin_url: REVIEW_ADDIN_URL.
        timeout_s: REVIEW_TIMEOUT_S, seconds one call may take.
        fallback_id: REVIEW_FALLBACK_ID, the model that is asked if the first one
            refuses, is overloaded, or is too small. Empty: no fallback.
        calls: REVIEW_CALLS, the calls of the model for each clause: twelve scores, and
            readings by eleven specialists in turn.
    """

    model: Literal["rules", "bedrock"] = "rules"
    model_id: str = SMALL_MODEL
    addin_url: str = "http://127.0.0.1:8765"
    timeout_s: float = 20.0
    fallback_id: str = ""
    calls: int = MIN_CALLS


def from_environment(environment: Mapping[str, str] = os.environ) -> Config:
    """Read the settings.

    Raises:
        PermanentError: When one of them has no meaning.
    """
    default = Config()
    model = environment.get("REVIEW_MODEL", default.model)
    if model not in {"rules", "bedrock"}:
        raise _invalid("REVIEW_MODEL", model, "rules or bedrock")
    timeout = environment.get("REVIEW_TIMEOUT_S", str(default.timeout_s))
    if not timeout.replace(".", "", 1).isdecimal() or not float(timeout):
        raise _invalid("REVIEW_TIMEOUT_S", timeout, "a number of seconds")
    calls = environment.get("REVIEW_CALLS", str(default.calls))
    if not calls.isdecimal() or int(calls) < MIN_CALLS:
        raise _invalid("REVIEW_CALLS", calls, f"{MIN_CALLS} or more")
    return Config(
        model=cast("Literal['rules', 'bedrock']", model),
        model_id=environment.get("REVIEW_MODEL_ID", default.model_id),
        addin_url=environment.get("REVIEW_ADDIN_URL", default.addin_url).rstrip("/"),
        timeout_s=float(timeout),
        fallback_id=environment.get("REVIEW_FALLBACK_ID", default.fallback_id),
        calls=int(calls),
    )


def _invalid(name: str, value: str, wanted: str) -> PermanentError:
    return PermanentError(
        f"{name} is {value!r}.",
        code="config.review.invalid",
        next_step=f"Set {name} to {wanted}, and start the workers again.",
    )
