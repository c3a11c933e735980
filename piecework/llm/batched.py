"""A model as batches ask it: the row of a request, and an answer as it is stored."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from piecework.domain import keys
from piecework.domain.batch import ID_LETTERS
from piecework.errors import (
    PermanentError,
    PolicyError,
    SemanticError,
    StageError,
    StateError,
    TransientError,
)
from piecework.llm.batches.port import BatchProvider
from piecework.llm.request import ModelAnswer, ModelRequest

#: Letters of each text of an error that is stored.
MOST_LETTERS: Final = 500
#: A custom id of the usual length, for the size of a row.
ANY_ID: Final = "0" * ID_LETTERS
#: The fields of an answer.
FIELDS: Final = frozenset(each.name for each in dataclasses.fields(ModelAnswer))


@dataclass(frozen=True, slots=True)
class ModelBatches:
    """How a model is asked in batches.

    Attributes:
        key: The same in each process for this name, provider, model and endpoint: the
            rows of one batch have all of them in common.
        request_of: Returns a request as the model is sent it.
    """

    key: str
    provider: BatchProvider
    request_of: Callable[[ModelRequest], ModelRequest]

    @property
    def most_row_bytes(self) -> int:
        """The most bytes of a row; a larger one goes direct."""
        return self.provider.limits.most_row_bytes

    def row_of(self, request: ModelRequest, *_: Any) -> tuple[str, int]:
        """Return the row of a request, as the model is sent it, and its bytes."""
        row = self.provider.row(ANY_ID, self.request_of(request))
        body = json.dumps(row.body, ensure_ascii=False, separators=(",", ":"))
        return body, self.provider.size_of(row)


def batches_of(
    caller: Any,
    request_of: Callable[[ModelRequest], ModelRequest],
    *named: str,
) -> ModelBatches:
    """Return how a model is asked in batches; `named`: what tells it from others."""
    provider: BatchProvider = caller.batches
    key = keys.sha256_of("batches", *named, provider.endpoint)[:16]
    return ModelBatches(key, provider, request_of)


def answer_text(answer: ModelAnswer) -> str:
    """Return an answer as it is stored until its call takes it."""
    return json.dumps(dataclasses.asdict(answer), ensure_ascii=False)


def read_batched(said: Mapping[str, Any]) -> ModelAnswer:
    """Return what a batch has said of a call: an answer.

    Raises:
        StageError: The error of its row.
    """
    if (failed := said.get("error")) is not None:
        raise error_of(failed)
    # A later version may have stored more of it.
    known = {name: value for name, value in said["answer"].items() if name in FIELDS}
    return ModelAnswer(**{**known, "notes": tuple(known.get("notes", ()))})


#: The types of the errors of rows, by their class.
ERRORS: Final = {
    str(each.stage_class): each
    for each in (
        TransientError,
        PermanentError,
        SemanticError,
        PolicyError,
        StateError,
    )
}


def failed_row(error: StageError) -> dict[str, Any]:
    """Return the error of a row as it is stored, and read by `error_of`."""
    facts = {name: error.facts.get(name) for name in ("http_status", "provider_code")}
    found = {
        "class": str(error.stage_class),
        "code": error.code,
        "message": error.message[:MOST_LETTERS],
        "next_step": error.next_step[:MOST_LETTERS],
        **facts,
    }
    return {name: value for name, value in found.items() if value}


def error_of(failed: Mapping[str, Any]) -> StageError:
    """Return the stored error of a row."""
    said = dict(failed)
    kind = ERRORS.get(str(said.pop("class", "")), PermanentError)
    message = str(said.pop("message", "The batch has failed this request."))
    code, step = said.pop("code", None), str(said.pop("next_step", ""))
    return kind(message, code=code, next_step=step, **said)
