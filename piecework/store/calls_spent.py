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
        tokens_in, tokens_out: What they took and gave, as far as they said so.
    """

    made: int
    late: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def added(self) -> str:
        """What is added to the chunk's own counts."""
        names = {"late": "calls_after_cancel", "cached": "cached_calls"}
        more = (f", {names.get(n, n)} :{n}" for n in self.values if n != "calls")
        return f"ADD calls :calls{''.join(more)}"

    @property
    def values(self) -> dict[str, int]:
        """The values that go with it."""
        facts = {
            "late": self.late,
            "cached": self.cached,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
        }
        return {"calls": self.made, **{name: n for name, n in facts.items() if n}}
