"""One row of the registry, and the five classes that decide the recovery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class ErrorClass(StrEnum):
    """The class of an error: it alone decides the recovery."""

    TRANSIENT = "transient"  # retry after a delay
    PERMANENT = "permanent"  # a retry cannot help
    SEMANTIC = "semantic"  # a valid answer with the wrong content: do not only repeat
    POLICY = "policy"  # refused by a rule or a quota: the same input is refused again
    STATE = "state"  # our own state was lost: restore it, then retry


BEHAVIOUR: Final[Mapping[ErrorClass, str]] = MappingProxyType(
    {
        ErrorClass.TRANSIENT: (
            "retries the call with full jitter within its budgets, then the chunk"
        ),
        ErrorClass.PERMANENT: "compensates the chunk and writes a dead letter",
        ErrorClass.SEMANTIC: (
            "runs the stage's `replan` hook with the code; without a hook as permanent"
        ),
        ErrorClass.POLICY: (
            "calls the next `fallback`; without a fallback as permanent"
        ),
        ErrorClass.STATE: "restores the last checkpoint and retries the chunk",
    }
)


@dataclass(frozen=True, slots=True)
class Code:
    """A stable code with its class, its cause and the next step for the user."""

    code: str
    error_class: ErrorClass
    cause: str
    recovery: str

    @property
    def layer(self) -> str:
        """The part of the system in which the error occurred."""
        return self.code.partition(".")[0]
