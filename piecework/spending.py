"""What calls cost, told on as they are answered: paid for, or spared a second time.

A dependency says what an answer cost, so that an answer from the journal says what it
would have cost again. What that function raises is nobody's loss but the bill's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import structlog

from piecework import telemetry, values
from piecework.call import Call
from piecework.call_counts import CallCounts
from piecework.telemetry.quiet import quiet_log
from piecework.usage import Usage

#: Tokens, or dollars, of one call that are believed: they become part of a record.
MOST: Final = 1_000_000_000
#: What became of a call: it was answered outside, by the journal, by another job's.
Answered: TypeAlias = Literal["paid", "replayed", "cached"]
#: Told of a call: its dependency, how it was answered, and what that costs or cost.
Ear: TypeAlias = Callable[[str, Answered, Usage], None]


def nobody(dependency: str, answered: Answered, usage: Usage) -> None:
    """Stand in where nothing is billed."""
    del dependency, answered, usage


@dataclass(frozen=True, slots=True)
class Spending:
    """What one claim spends on calls, told to whoever keeps the bill."""

    tell: Ear = nobody
    log: structlog.stdlib.BoundLogger | None = None

    def paid(self, call: Call, answer: Any, counts: CallCounts) -> None:
        """Tell of a call that was answered outside."""
        usage = self._usage(call, lambda: answer)
        counts.tokens_in += usage.tokens_in
        counts.tokens_out += usage.tokens_out
        self.tell(call.dependency.name, "paid", usage)

    def spared(self, call: Call, text: str, how: Literal["replayed", "cached"]) -> None:
        """Tell of a call that was not paid for again."""
        usage = self._usage(call, lambda: values.decode(call.bound.func, text))
        self.tell(call.dependency.name, how, usage)

    def _usage(self, call: Call, answer: Callable[[], Any]) -> Usage:
        """Return what an answer cost; nothing, where that cannot be told."""
        usage = call.dependency.usage
        if usage is None:
            return Usage()
        try:
            return checked(usage(answer()))
        except Exception as error:  # noqa: BLE001 -- a person's function, about money
            log = self.log or quiet_log()
            name = call.dependency.name
            telemetry.emit(
                log, "usage.failed", dependency=name, error=type(error).__name__
            )
            return Usage()


def checked(usage: Any) -> Usage:
    """Return it if it is one: tokens may be counted by a stranger's library.

    Raises:
        TypeError: It is none.
        ValueError: It counts backwards, or beyond what any call costs.
    """
    if not isinstance(usage, Usage):
        message = "it returned no Usage"
        raise TypeError(message)
    whole = Usage(
        int(usage.tokens_in), int(usage.tokens_out), float(usage.usd), str(usage.model)
    )
    for amount in (whole.tokens_in, whole.tokens_out, whole.usd):
        if not 0 <= amount <= MOST:
            message = "a usage is out of all bounds"
            raise ValueError(message)
    return whole
