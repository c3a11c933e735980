"""One row of the registry, and the five classes that decide what happens next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class ErrorClass(StrEnum):
    """What the runtime does with an error; the only thing that it decides by."""

    TRANSIENT = "transient"  # back off and try again
    PERMANENT = "permanent"  # trying again cannot help
    SEMANTIC = "semantic"  # a valid answer with the wrong content: do not just repeat
    POLICY = "policy"  # refused by a rule or a quota: not with the same input
    STATE = "state"  # our own state was lost: restore, then try again


BEHAVIOUR: Final[Mapping[ErrorClass, str]] = MappingProxyType(
    {
        ErrorClass.TRANSIENT: (
            "tries the call again with full jitter within the budgets, then the chunk"
        ),
        ErrorClass.PERMANENT: "compensates and writes a dead letter",
        ErrorClass.SEMANTIC: (
            "runs the stage's `replan` hook, which is told the code; without one as "
            "permanent"
        ),
        ErrorClass.POLICY: (
            "asks the next of the `fallback` chain; without one as permanent"
        ),
        ErrorClass.STATE: ("restores the last checkpoint and tries the chunk again"),
    }
)


@dataclass(frozen=True, slots=True)
class Code:
    """A stable code, why it appears (one sentence) and what to do (one sentence)."""

    code: str
    error_class: ErrorClass
    cause: str
    recovery: str

    @property
    def layer(self) -> str:
        """The part of the system that met the error."""
        return self.code.partition(".")[0]
