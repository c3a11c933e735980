"""An occasion: a state that lasts, of which webhooks are told once.

job.stuck       no chunk of a job runs or ends
breaker.open    the circuit breaker of a dependency is open
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from piecework.domain.fields import Decoded, Number, Text, text_list
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

    kind = Text("The event that tells it.")
    name = Text("The job or the dependency that it is about.", "subject")
    pipeline = Text("The pipeline to whose webhooks it is told; empty: to the others.")
    since = Text("Since when the state lasts; identifies the occasion.")
    state = Text("What the state was; another one is another occasion.")
    told = Decoded(text_list, "The webhooks that were told.", kind="list")
    tells = Number("How often webhooks were told.")

    @property
    def subject(self) -> Subject:
        """What it is about."""
        return Subject(self.kind, self.name, self.pipeline)
