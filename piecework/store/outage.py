"""What our own AWS calls raise, as one error that is nobody's fault but the store's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from piecework.classify import classify
from piecework.errors import StoreError


@contextmanager
def reaching(what: str) -> Iterator[None]:
    """Raise `StoreError` for whatever the SDK raises inside.

    Raises:
        StoreError: With the code of what AWS said.
    """
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        code = classify(error).code
        message = f"{what} could not be reached: {type(error).__name__}."
        raise StoreError(message, code=code) from error
