"""The errors of rows and of whole batches, with the codes of a direct request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from piecework.errors import PermanentError, StageError
from piecework.errors.classify import classify
from piecework.errors.classify_llm import code_of_words
from piecework.errors.stop_reasons import stage_error
from piecework.llm.parts import part
from piecework.llm.request import ModelAnswer

#: The statuses of an output that the provider has deleted.
_GONE: Final = frozenset({404, 410})
#: Characters of a provider's message that are kept.
_SHOWN: Final = 500
#: The tier that an answer of a batch has, for its price, whatever the answer says.
TIER: Final = "batch"


def row_error(said: Any, status: int | None = None, code: str = "") -> StageError:
    """Return the error of a row by the provider's words and status.

    `code`: the one of unknown words; empty: that of a model that failed.
    """
    words = [
        word
        for name in ("error_code", "code", "type")
        if isinstance(word := part(said, name), str)
    ]
    found = code_of_words(words, status) or code or "llm.model.failed"
    told = part(said, "message")
    shown = " ".join(filter(None, (str(status or ""), *words[:1])))[:_SHOWN]
    message = f"The provider refused a row of a batch: {shown or 'no word'}"
    if isinstance(told, str) and told:
        message = f"{message}: {told[:_SHOWN]}"
    return stage_error(
        message,
        found,
        http_status=status,
        provider_code=words[0][:_SHOWN] if words else None,
    )


def of_batch(answer: ModelAnswer) -> ModelAnswer:
    """Return an answer with the tier of a batch."""
    return replace(answer, service_tier=TIER)


def paid_in_batch(error: StageError) -> StageError:
    """Return the error of an answer, whose tokens count in the tier of a batch."""
    answer = error.facts.get("answer")
    if isinstance(answer, ModelAnswer):
        error.facts["answer"] = of_batch(answer)
    return error


def gone(error: Exception) -> PermanentError | None:
    """Return the error of an output that is gone; None: the error is another."""
    if classify(error, layer="llm").http_status in _GONE:
        return results_gone()
    return None


def results_gone() -> PermanentError:
    """Return the error of an output that the provider has deleted."""
    return PermanentError(
        "The provider has deleted the results of a batch.",
        code="llm.batch.results_gone",
    )


def word_of(said: Any) -> str:
    """Return the word of an error; empty: it has none."""
    word = said.get("code") if isinstance(said, Mapping) else None
    return word if isinstance(word, str) else ""
