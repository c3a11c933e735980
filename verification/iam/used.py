"""What of all that roles are granted was used, and what was not, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from verification.iam.evaluate import Statement, arn_like, like, texts
from verification.iam.grants import OURS
from verification.iam.proxy import Call

#: Conditions whose every value is a grant of its own.
WHERE = {"dynamodb:LeadingKeys", "s3:prefix"}


@dataclass(frozen=True, order=True, slots=True)
class Grant:
    """The smallest thing that can be granted.

    Attributes:
        where: A partition or a prefix within the resource; empty: not by these.
    """

    actor: str
    action: str
    resource: str
    where: str = ""

    def fits(self, call: Call) -> bool:
        """Return whether a call needed this."""
        return (
            self.actor in call.actor.split("+")
            and self.action == call.action
            and arn_like(self.resource, call.resource)
            and (
                not self.where
                or any(like(self.where, key) for key in (*call.keys, call.prefix))
            )
        )


def of_our_code(actor: str, statements: Iterable[Statement]) -> list[Statement]:
    """Return the statements about what our code asks, not CloudFormation for it."""
    ours = {pair for row in OURS[actor] for pair in row.pairs("*")}
    return [
        s
        for s in statements
        if {(g.action, g.resource) for g in grants(actor, [s])} <= ours
    ]


def grants(actor: str, statements: Iterable[Statement]) -> set[Grant]:
    """Return everything that statements grant, one by one.

    A partition is a grant of its statement, not of each action in it. The statement
    grants the actions of one transaction on all its partitions together.
    """
    return {
        Grant(actor, action, resource)
        for s in statements
        for action in texts(s["Action"])
        for resource in texts(s["Resource"])
    }


def places(actor: str, statements: Iterable[Statement]) -> Iterator[set[Grant]]:
    """Yield for each place that is named the grants of which one must be used."""
    for s in statements:
        for operator, lines in s.get("Condition", {}).items():
            named = WHERE & set(lines) if operator != "Null" else set()
            for where in (w for key in named for w in texts(lines[key])):
                yield {
                    Grant(actor, action, resource, where)
                    for action in texts(s["Action"])
                    for resource in texts(s["Resource"])
                }


def unused(
    granted: Mapping[str, Iterable[Statement]], calls: Iterable[Call]
) -> set[Grant]:
    """Return the grants that no call needed."""
    seen = list(calls)
    found = {
        grant
        for actor, statements in granted.items()
        for grant in grants(actor, statements)
        if not any(map(grant.fits, seen))
    }
    return found | {
        min(some)
        for actor, statements in granted.items()
        for some in places(actor, statements)
        if not any(grant.fits(call) for grant in some for call in seen)
    }


def explained(actor: str) -> dict[tuple[str, str], str]:
    """Return why nothing here can show some of what an actor is granted."""
    return {
        pair: row.unproven
        for row in OURS[actor]
        if row.unproven
        for pair in row.pairs("*")
    }


def left_over(found: Iterable[Grant]) -> list[Grant]:
    """Return the unused grants that have no reason."""
    reasons = {actor: explained(actor) for actor in OURS}
    return sorted(g for g in found if (g.action, g.resource) not in reasons[g.actor])


def stale(found: Iterable[Grant]) -> list[str]:
    """Return the reasons that excuse nothing: their grant was used."""
    missing = {(g.actor, g.action, g.resource) for g in found}
    return sorted(
        f"{actor} {action} {resource}"
        for actor in OURS
        for action, resource in explained(actor)
        if (actor, action, resource) not in missing
    )
