"""Lanes: a call that can wait asks for a cheaper tier of its provider. Pure.

    flex      the provider has room            -> answered, for the price of its tier
              the provider has no room         -> the chunk waits, without an attempt
              no room since `within`           -> direct
    direct    as each call without a lane

A wait starts at the first refusal of a call, and the journal of its chunk keeps that
moment. The tier that an answer names decides its price, whichever was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from piecework.domain.spans import is_span, span_s
from piecework.errors import UsageError

#: The code of a call that its provider refused unread: its cheap tier has no room.
NO_ROOM_CODE: Final = "llm.lane.no_room"
#: The code of a call whose model has no such tier.
UNSUPPORTED_CODE: Final = "llm.lane.unsupported"

#: The tiers of providers with a price of their own: each has a line in the bill.
PRICED_TIERS: Final = frozenset({"batch", "fast", "flex", "priority", "scale"})
#: Seconds of an attempt in the flex lane, as OpenAI advises: its answers are slow.
FLEX_TIMEOUT_S: Final = 900.0
#: Seconds for which a call waits for room in the flex lane.
FLEX_WITHIN_S: Final = 3600.0
#: The shortest such time: a shorter one would pay the full price for a short peak.
LEAST_WITHIN_S: Final = 300.0
#: The shortest and the longest wait until a call asks for room again. Between them it
#: waits as long as it has waited, so that a long peak costs few claims.
FIRST_WAIT_S: Final = 15.0
LONGEST_WAIT_S: Final = 300.0

#: A span of time: seconds, a timedelta, or a text such as `2h`.
Span: TypeAlias = float | timedelta | str


@dataclass(frozen=True, slots=True)
class Lane:
    """How the requests of a model are served: make one by `direct` or `flex`.

    Attributes:
        tier: The tier that a request asks for; empty: none, so it is direct.
        timeout: Seconds of one attempt with this tier.
        within: Seconds, from the first refusal for lack of room, after which a call
            goes direct.
    """

    tier: str = ""
    timeout: float = 0.0
    within: float = 0.0

    @classmethod
    def direct(cls) -> Lane:
        """Return the lane of a request that names no tier."""
        return DIRECT

    @classmethod
    def flex(
        cls, timeout: float = FLEX_TIMEOUT_S, within: Span = FLEX_WITHIN_S
    ) -> Lane:
        """Return the lane of a request that is served later, for less.

        Args:
            timeout: Seconds of one attempt in this lane.
            within: For how long a call waits for room, from its first refusal; then it
                goes direct. Seconds, a timedelta or a text such as `2h`.

        Raises:
            UsageError: `pipeline.declaration.invalid`.
        """
        seconds = _seconds(within)
        if not timeout > 0:
            raise _invalid(f"the timeout of a lane is {timeout!r}, not above 0")
        if not seconds >= LEAST_WITHIN_S:
            raise _invalid(f"`within` of a lane is {within!r}, below 5 minutes")
        return cls("flex", float(timeout), seconds)

    def at(self, since: float | None, now: float) -> Lane:
        """Return the lane that a call takes now.

        `since`: when it was first refused for lack of room; None: it was not.
        """
        is_over = since is not None and now - since >= self.within
        return DIRECT if is_over else self

    def wait_s(self, since: float, now: float, asked: float | None) -> float:
        """Return the seconds until a call asks for room again.

        `asked`: what the provider asked for; None: nothing. It goes direct on time.
        """
        waited = min(max(now - since, FIRST_WAIT_S), LONGEST_WAIT_S)
        return min(max(waited, asked or 0.0), max(since + self.within - now, 0.0))


DIRECT: Final = Lane()
#: What a job may override the lanes of its models with.
OVERRIDES: Final = ("direct",)


def parse_override(text: str) -> str:
    """Return the lane that all calls of a job take; empty: as their models declare.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if text and text not in OVERRIDES:
        message = f"{text!r} is not a lane of a whole job."
        step = f"Write {' or '.join(OVERRIDES)}; a model declares Lane.flex()."
        raise UsageError(message, next_step=step)
    return text


def _seconds(span: Span) -> float:
    """Return a span in seconds."""
    if isinstance(span, timedelta):
        return span.total_seconds()
    if isinstance(span, str) and is_span(span):
        return span_s(span)
    if isinstance(span, bool) or not isinstance(span, int | float):
        raise _invalid(f"`within` of a lane is {span!r}, no span such as '2h'")
    return float(span)


def _invalid(why: str) -> UsageError:
    return UsageError(
        f"A lane cannot be declared: {why}.",
        code="pipeline.declaration.invalid",
        next_step="Write Lane.direct(), or Lane.flex(timeout=900, within='1h').",
    )
