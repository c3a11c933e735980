"""Decide as IAM does whether a set of policies allows a request.

Pure. An element or operator that our own policies do not use is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

Statement: TypeAlias = Mapping[str, Any]
Context: TypeAlias = Mapping[str, str | tuple[str, ...]]

ELEMENTS = {
    *("Sid", "Effect", "Principal", "Action", "Resource", "Condition"),
}
VARIABLE = re.compile(r"\$\{([^}]+)\}")
ARN_PARTS = 6


class Decision(StrEnum):
    ALLOWED = "allowed"
    #: A statement forbids it, whatever else allows it.
    FORBIDDEN = "forbidden"
    #: Nothing allows it.
    NOT_ALLOWED = "not allowed"


@dataclass(frozen=True, slots=True)
class Request:
    """One action on one resource, with its context and its principal.

    Attributes:
        principal: The caller as a `Principal` names it: its kind and name.
    """

    action: str
    resource: str = ""
    context: Context = field(default_factory=dict)
    principal: tuple[str, str] = ("AWS", "")


def decide(
    request: Request,
    granted: Sequence[Statement],
    on_resource: Sequence[Statement] = (),
    boundary: Sequence[Statement] | None = None,
) -> Decision:
    """Decide about a request of a role in the account that owns the resource.

    A policy of the resource can allow what no policy of the role does. A boundary caps
    what the role's own policies can allow.
    """
    ours, theirs = effects(granted, request), effects(on_resource, request)
    cap = {"Allow"} if boundary is None else effects(boundary, request)
    if "Deny" in ours | theirs | cap:
        return Decision.FORBIDDEN
    if "Allow" in theirs or ("Allow" in ours and "Allow" in cap):
        return Decision.ALLOWED
    return Decision.NOT_ALLOWED


def effects(statements: Iterable[Statement], request: Request) -> set[str]:
    """Return the effects of the statements that speak of a request."""
    return {str(s["Effect"]) for s in statements if applies(s, request)}


def applies(statement: Statement, request: Request) -> bool:
    """Return whether a statement speaks of a request.

    Raises:
        ValueError: For an element or an operator that is not known here.
    """
    if unknown := set(statement) - ELEMENTS:
        message = f"elements that are not judged here: {sorted(unknown)}"
        raise ValueError(message)
    return (
        names(statement.get("Principal"), request.principal)
        and any(
            like(a.lower(), request.action.lower()) for a in texts(statement["Action"])
        )
        and concerns(statement, request)
        and all(
            holds(operator, key, texts(wanted), request.context)
            for operator, keys in statement.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
    )


def names(principals: Any, who: tuple[str, str]) -> bool:
    """Return whether a statement names a principal; a role's statement always does."""
    if principals in (None, "*"):
        return True
    kind, name = who
    account = name.split(":")[4] if name.startswith("arn:") else ""
    return any(
        wanted in ("*", name) or (account and wanted.endswith(f"::{account}:root"))
        for wanted in texts(principals.get(kind, ()))
    )


def concerns(statement: Statement, request: Request) -> bool:
    """Return whether a statement is about a resource; a trust policy names none."""
    if "Resource" not in statement:
        return True
    return any(
        arn_like(pattern, request.resource)
        for written in texts(statement["Resource"])
        if (pattern := filled(written, request.context)) is not None
    )


def holds(operator: str, key: str, wanted: Sequence[str], context: Context) -> bool:
    """Return whether one line of a condition holds.

    Raises:
        ValueError: For an operator that is not known here.
    """
    many, _, rest = operator.rpartition(":")
    test, optional = rest.removesuffix("IfExists"), rest.endswith("IfExists")
    given = context.get(key.lower())
    if test == "Null":
        return wanted[0] == str(given is None).lower()
    if test == "StringNotEquals" and not many:
        return given is None or not holds("StringEquals", key, wanted, context)
    match = MATCHES.get(test)
    if match is None or many not in {"", "ForAllValues", "ForAnyValue"}:
        message = f"{operator} is not judged here"
        raise ValueError(message)
    if given is None:
        return optional or many == "ForAllValues"
    patterns = [p for w in wanted if (p := filled(w, context)) is not None]
    found = [any(match(p, value) for p in patterns) for value in texts(given)]
    # If a key has one value, all of them is any of them.
    return any(found) if many == "ForAnyValue" else all(found)


def filled(written: str, context: Context) -> str | None:
    """Return a text with its policy variables; None when one has no value."""
    given = {name: context.get(name.lower()) for name in VARIABLE.findall(written)}
    if not all(isinstance(value, str) for value in given.values()):
        return None
    return VARIABLE.sub(lambda found: str(given[found[1]]), written)


def like(pattern: str, text: str) -> bool:
    """Return whether a text is as a pattern with `*` and `?` says."""
    parts = ({"*": ".*", "?": "."}.get(sign) or re.escape(sign) for sign in pattern)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def arn_like(pattern: str, arn: str) -> bool:
    """Say the same of an ARN, whose wildcards stay within its parts."""
    if pattern == "*":
        return True
    patterns, parts = (p.split(":", ARN_PARTS - 1) for p in (pattern, arn))
    return len(patterns) == len(parts) and all(map(like, patterns, parts))


def texts(value: Any) -> list[str]:
    """Return a value, or each of several, as texts."""
    if isinstance(value, str | bool | int):
        return [str(value).lower() if isinstance(value, bool) else str(value)]
    return [str(one) for one in value]


MATCHES = {
    "StringEquals": lambda wanted, given: wanted == given,
    "StringLike": like,
    "ArnLike": arn_like,
    "Bool": lambda wanted, given: wanted.lower() == given.lower(),
}
