"""Hold the long polls of a simulated SQS open until a message comes."""

from __future__ import annotations

from contextvars import Context
from dataclasses import dataclass, field
from typing import Protocol

from piecework_simulation.aws.sqs import SQS
from piecework_simulation.engine.loop import Loop


class Poll(Protocol):
    """A request that stays open."""

    def execute(self) -> None:
        """Execute the request, again."""
        ...


@dataclass(slots=True)
class LongPolls:
    """The long polls that stay open, by queue.

    Attributes:
        context: The surroundings of their timers.
        epoch: The Unix time at which the clock of the loop is 0.
    """

    loop: Loop
    sqs: SQS
    context: Context
    epoch: float
    _waiting: dict[str, list[Poll]] = field(default_factory=dict)

    def wait(self, poll: Poll, url: str, until: float) -> None:
        """Keep a poll open until there is a message, or until its time is over."""
        self._waiting.setdefault(url, []).append(poll)
        loop = self.loop
        next_at = self.sqs.next_at(url)
        at = until if next_at is None else min(until, next_at - self.epoch)
        at = max(at, loop.moment)
        loop.call_at(at, self.retry_poll, poll, url, context=self.context)

    def retry_first(self, url: str) -> None:
        """Execute the first open poll of a queue again."""
        waiting = self._waiting.get(url)
        if waiting:
            self.retry_poll(waiting[0], url)

    def retry_poll(self, poll: Poll, url: str) -> None:
        """Execute an open poll again."""
        waiting = self._waiting.get(url, [])
        if poll in waiting:
            waiting.remove(poll)
            poll.execute()
