"""An occasion: a state that lasts, of which webhooks are told once.

job.stuck       no chunk of a job runs or ends
breaker.open    the circuit breaker of a dependency is open
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from piecework.domain.rows import Row


class Subject(NamedTuple):
    """What an occasion is about.

    Attributes:
        kind: The event that tells it, one of `webhook.WATCHED`.
        name: A job or a dependency.
        pipeline: The pipeline to whose webhooks it is told; empty: to the others.
    """

    kind: str
    name: str
    pipeline: str = ""


@dataclass(frozen=True, slots=True)
class Occasion(Row):
    """An occasion as a reconciler noted it."""

    WHAT = "An occasion"

    @property
    def subject(self) -> Subject:
        """What it is about."""
        names = (self._text("kind"), self._text("subject"), self._text("pipeline"))
        return Subject(*names)

    @property
    def since(self) -> str:
        """Since when the state lasts, ISO 8601; identifies the occasion."""
        return self._text("since")

    @property
    def state(self) -> str:
        """What the state was; another one is another occasion."""
        return self._text("state")

    @property
    def told(self) -> Sequence[str]:
        """The webhooks that were told."""
        return [str(name) for name in self.item.get("told", ())]

    @property
    def tells(self) -> int:
        """How often webhooks were told."""
        return self._int("tells")
