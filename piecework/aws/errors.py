"""Turn the errors of our own AWS requests into `StoreError`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from piecework.errors import StoreError, WorkerExhaustedError


@dataclass(frozen=True, slots=True)
class Reaching:
    """A context that maps SDK errors; a class, because every request enters it."""

    what: str

    def __enter__(self) -> None:
        """Start the request."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raise `StoreError` for an error of the SDK."""
        if isinstance(error, ClientError | BotoCoreError):
            from piecework.errors.causes import chain
            from piecework.errors.classify import classify  # loads pydantic
            from piecework.errors.classify_exhaustion import lacks_resources

            failure = classify(error)
            if any(map(lacks_resources, chain(error))):
                message = f"{self.what} could not be reached: {failure.message}"
                raise WorkerExhaustedError(message) from error
            answered = isinstance(error, ClientError)
            problem = "refused a request" if answered else "could not be reached"
            message = f"{self.what} {problem}: {failure.message}"
            raise StoreError(message, code=failure.code) from error


P = TypeVar("P")
_REQUIRED: Final = object()


def part_of(answer: object, name: str, kind: type[P], default: object = _REQUIRED) -> P:
    """Return a part of an answer of AWS.

    Raises:
        StoreError: `aws.service.unavailable`: the answer has no such part. A proxy, or
            a cut answer, looks like that; the request is repeated as in an outage.
    """
    found = answer.get(name, default) if isinstance(answer, Mapping) else None
    if isinstance(found, kind):
        return found
    message = f"An answer of AWS has no {name}: it was cut, or is not of AWS."
    raise StoreError(message, code="aws.service.unavailable")


@lru_cache(maxsize=64)
def reaching(what: str) -> Reaching:
    """Return a context that raises `StoreError` for every SDK error inside.

    Raises:
        StoreError: With the error code of the AWS answer.
    """
    return Reaching(what)
