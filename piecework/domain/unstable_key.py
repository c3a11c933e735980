"""A call that a repeated stage makes under another key each time, as rows name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from piecework.errors import UsageError

#: The code of the finding and of the error.
UNSTABLE_CODE = "call.key.unstable"


@dataclass(frozen=True, slots=True)
class UnstableKey:
    """A call whose stored answers are not found again.

    Attributes:
        function: The name of the called function.
        arguments: The names of the arguments that differ; empty: not known.
    """

    stage: str
    dependency: str
    function: str
    arguments: str

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> UnstableKey:
        """Read what the row of a chunk or of a job says."""
        names = ("stage", "dependency", "function", "arguments")
        return cls(*(str(row.get(name, "")) for name in names))

    @property
    def words(self) -> str:
        """What happened, in one sentence."""
        named = f"argument {self.arguments}" if self.arguments else "an argument"
        return (
            f"Stage {self.stage} was repeated, and none of its stored calls of "
            f"{self.function} ({self.dependency}) was asked for again: {named} differs "
            "in each run."
        )

    @property
    def error(self) -> UsageError:
        """The error of a test."""
        return UsageError(self.words, code=UNSTABLE_CODE)
