"""What a call changes outside Piecework."""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """What a call changes outside Piecework; declared once for each dependency.

    The kind decides what happens if a worker dies between a call and its record. At
    that moment the worker that takes over cannot know whether the call took place.
    """

    #: Nothing. The result is stored, and the call may be made again at its price.
    PURE = "pure"
    #: An effect whose provider honours the idempotency key: the call is repeated.
    PROVIDER_IDEMPOTENT = "provider_idempotent"
    #: An effect that is looked up by our key before the call is made again.
    LOOKUP = "lookup"
    #: An effect that can be neither repeated nor looked up: an operator decides.
    NON_IDEMPOTENT = "non_idempotent"
