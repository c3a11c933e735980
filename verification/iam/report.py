"""Compare the requests that the proxy saw with the grants of the roles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from verification.iam.evaluate import Statement
from verification.iam.grants import OURS
from verification.iam.proxy import Call
from verification.iam.roles import EVERYTHING, roles
from verification.iam.used import Grant, grants, left_over, of_our_code, stale, unused


@dataclass(slots=True)
class Report:
    """All requests, and the decisions about them.

    Attributes:
        strange: Requests whose permissions `operations.py` does not list.
        broken: Commands that failed, and violated invariants.
    """

    calls: set[Call] = field(default_factory=set)
    denied: set[Call] = field(default_factory=set)
    strange: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    decisions: int = 0

    def add(
        self,
        let_in: Iterable[Call],
        denied: Iterable[Call],
        strange: Iterable[str],
        decisions: int,
    ) -> None:
        """Add the record of a proxy."""
        self.calls |= set(let_in)
        self.denied |= set(denied)
        self.strange |= set(strange)
        self.decisions += decisions

    @property
    def idle(self) -> set[Grant]:
        """The grants for our code that no request needed."""
        return unused(ours(), self.calls)

    @property
    def wrong(self) -> list[str]:
        """Everything that fails the build."""
        return [
            *(f"denied: {call}" for call in sorted(map(str, self.denied))),
            *(f"not in operations.py: {one}" for one in sorted(self.strange)),
            *(f"granted and unused: {grant}" for grant in left_over(self.idle)),
            *(f"a reason that no grant needs: {one}" for one in stale(self.idle)),
            *(f"broken: {one}" for one in self.broken),
        ]

    def lines(self) -> list[str]:
        """Return the use of each role, and what is wrong."""
        used = [
            f"{actor:15} {len(mine - self.idle):3} of {len(mine):3} used"
            for actor, mine in granted().items()
        ]
        return [*used, *self.wrong]

    def last_line(self) -> str:
        """Return the figures."""
        mine = {grant for some in granted().values() for grant in some}
        idle, left = self.idle & mine, left_over(self.idle)
        figures = {
            "roles": len(OURS),
            "actions_granted": len(mine),
            "actions_used": len(mine - idle),
            "unproven_with_reason": len(idle) - len(idle & set(left)),
            "unused_without_reason": len(left),
            "denied": len(self.denied),
            "decisions": self.decisions,
        }
        return " ".join(f"{name}={value}" for name, value in figures.items())


def ours() -> dict[str, list[Statement]]:
    """Return each role's statements about our code's calls."""
    made = roles(**EVERYTHING)
    return {actor: of_our_code(actor, made[actor].grants) for actor in OURS}


def granted() -> dict[str, set[Grant]]:
    """Return the same as single grants."""
    return {actor: grants(actor, some) for actor, some in ours().items()}
