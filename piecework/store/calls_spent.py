"""What a claim spent on calls, as its settlement adds it to the chunk's counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Calls:
    """What a claim spent on calls.

    Attributes:
        made: All that were answered outside.
        late: Those of them that ended after a cancel.
        cached: Those that a shared response answered in their place.
    """

    made: int
    late: int = 0
    cached: int = 0

    @property
    def added(self) -> str:
        """What is added to the chunk's own counts."""
        late = ", late_calls :late" if self.late else ""
        cached = ", cached_calls :cached" if self.cached else ""
        return f"ADD calls :calls{late}{cached}"

    @property
    def values(self) -> dict[str, int]:
        """The values that go with it."""
        facts = {"late": self.late, "cached": self.cached}
        return {"calls": self.made, **{name: n for name, n in facts.items() if n}}
