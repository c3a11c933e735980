"""Lanes: a call that can wait asks for a cheaper tier of its provider. Pure.

    flex      the provider has room            -> answered, for the price of its tier
              the provider has no room         -> the chunk waits, without an attempt
              no room since `within`           -> direct
    batch     the chunk waits for a batch, without a worker; `batching.py` decides
    direct    as each call without a lane

A wait starts at the first refusal of a call, and the journal of its chunk keeps that
moment. The tier that an answer names decides its price, whichever was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias

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

#: The tier of answers that come in batches, and the part of the direct price that a
#: budget reserves for one.
BATCH: Final = "batch"
BATCH_SHARE: Final = 0.5
#: Seconds within which a batch answers, as its providers promise.
BATCH_WITHIN_S: Final = 86_400.0
#: The fewest requests of a batch, and the seconds for which they are gathered.
BATCH_AT_LEAST: Final = 100
BATCH_GATHER_S: Final = 300.0

#: A span of time: seconds, a timedelta, or a text such as `2h`.
Span: TypeAlias = float | timedelta | str


@dataclass(frozen=True, slots=True)
class Lane:
    """How the requests of a model are served: by `direct`, `flex` or `batch`.

    Attributes:
        tier: The tier that a request asks for; empty: none, so it is direct.
        timeout: Seconds of one attempt with this tier.
        within: Seconds after which a call goes direct: from its first refusal for lack
            of room, or from its first request for a batch.
        at_least: Of a batch: the fewest requests in it.
        gather: Of a batch: seconds for which its requests are gathered.
        said: What a batch has said of the call, its answer or its error as a document:
            an attempt reads that, and sends nothing. None: it sends.
    """

    tier: str = ""
    timeout: float = 0.0
    within: float = 0.0
    at_least: int = 0
    gather: float = 0.0
    said: Any = None

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
        if not timeout > 0:
            raise _invalid(f"the timeout of a lane is {timeout!r}, not above 0")
        return cls("flex", float(timeout), _within(within))

    @classmethod
    def batch(
        cls,
        within: Span = BATCH_WITHIN_S,
        at_least: int = BATCH_AT_LEAST,
        gather: Span = BATCH_GATHER_S,
    ) -> Lane:
        """Return the lane of a request that is answered hours later, for about half.

        Args:
            within: For how long a call waits for its batch; then it goes direct.
                Seconds, a timedelta or a text such as `12h`.
            at_least: The fewest requests of a batch; fewer go direct.
            gather: For how long the requests of a batch are gathered, from the first
                one on.

        Raises:
            UsageError: `pipeline.declaration.invalid`.
        """
        seconds, gathered = _within(within), _seconds(gather)
        if type(at_least) is not int or at_least < 1:
            raise _invalid(f"`at_least` of a lane is {at_least!r}, no number above 0")
        if not 0 <= gathered <= seconds / 2:
            raise _invalid(f"`gather` of a lane is {gather!r}, above half of `within`")
        return cls(BATCH, within=seconds, at_least=at_least, gather=gathered)

    @property
    def share(self) -> float:
        """The part of the direct price that a budget reserves for a request."""
        return BATCH_SHARE if self.tier == BATCH else 1.0

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


def _within(within: Span) -> float:
    """Return for how many seconds a call waits at most."""
    seconds = _seconds(within)
    if not seconds >= LEAST_WITHIN_S:
        raise _invalid(f"`within` of a lane is {within!r}, below 5 minutes")
    return seconds


def _seconds(span: Span) -> float:
    """Return a span in seconds."""
    if isinstance(span, timedelta):
        return span.total_seconds()
    if isinstance(span, str) and is_span(span):
        return span_s(span)
    if isinstance(span, bool) or not isinstance(span, int | float):
        raise _invalid(f"a time of a lane is {span!r}, no span such as '2h'")
    return float(span)


def _invalid(why: str) -> UsageError:
    return UsageError(
        f"A lane cannot be declared: {why}.",
        code="pipeline.declaration.invalid",
        next_step="Write Lane.direct(), Lane.flex(timeout=900, within='1h') or "
        "Lane.batch(within='12h').",
    )
