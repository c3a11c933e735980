"""What our own AWS calls raise, as one error that is nobody's fault but the store's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType

from botocore.exceptions import BotoCoreError, ClientError

from piecework.classify import classify
from piecework.errors import StoreError


@dataclass(frozen=True, slots=True)
class Reaching:
    """A request to something; a class, for every request goes through one."""

    what: str

    def __enter__(self) -> None:
        """Begin the request."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it; what the SDK raised is the store's."""
        if isinstance(error, ClientError | BotoCoreError):
            code = classify(error).code
            message = f"{self.what} could not be reached: {type(error).__name__}."
            raise StoreError(message, code=code) from error


@lru_cache(maxsize=64)
def reaching(what: str) -> Reaching:
    """Raise `StoreError` for whatever the SDK raises inside.

    Raises:
        StoreError: With the code of what AWS said.
    """
    return Reaching(what)
