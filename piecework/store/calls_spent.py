"""The calls of a claim, as its settlement adds them to the chunk's counters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Calls:
    """The counters of a claim's calls.

    Attributes:
        made: Calls that a dependency answered.
        late: Calls of these that ended after a cancel request.
        cached: Calls that a shared response answered.
        tokens_in, tokens_out: Tokens, as far as the dependencies report them.
    """

    made: int
    late: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def added(self) -> str:
        """The ADD clause for the chunk's counters."""
        names = {"late": "calls_after_cancel", "cached": "cached_calls"}
        more = (f", {names.get(n, n)} :{n}" for n in self.values if n != "calls")
        return f"ADD calls :calls{''.join(more)}"

    @property
    def values(self) -> dict[str, int]:
        """The values of the ADD clause."""
        facts = {
            "late": self.late,
            "cached": self.cached,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
        }
        return {"calls": self.made, **{name: n for name, n in facts.items() if n}}
