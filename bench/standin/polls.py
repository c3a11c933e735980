"""Receives that wait for a message: those that came first are served first."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from simulation.cloud.sqs import SQS

#: Seconds by which a look for a message that is due may come too late.
LATE_S = 0.001


@dataclass(slots=True, eq=False)
class Poll:
    """A receive that waits.

    Attributes:
        until: When it ends with nothing, by the loop's clock.
    """

    request: Mapping[str, Any]
    queue: str
    reply: Callable[[Mapping[str, Any]], None]
    until: float = 0.0
    timer: TimerHandle | None = None


class LongPolls:
    """The open polls of all queues."""

    def __init__(
        self, loop: AbstractEventLoop, model: SQS, now: Callable[[], float]
    ) -> None:
        self._loop = loop
        self._now = now
        self._model = model
        self._waiting: dict[str, list[Poll]] = {}

    def wait(self, poll: Poll, wait_s: float) -> Callable[[], None]:
        """Keep an empty poll open; return a function that cancels it."""
        poll.until = self._loop.time() + wait_s
        self._waiting.setdefault(poll.queue, []).append(poll)
        self._set(poll)
        return lambda: self._end(poll)

    def arrived(self, url: str) -> None:
        """Retry the open polls of a queue, in their order."""
        waiting = self._waiting.get(url.rpartition("/")[2], [])
        while waiting and self._retry(waiting[0]):
            pass

    def _retry(self, poll: Poll) -> bool:
        """Answer a poll if there are messages; return whether it was answered."""
        try:
            reply = self._model.call("receive_message", poll.request)
        except ClientError:  # the queue was deleted
            reply = {}
            poll.until = 0.0
        if "Messages" not in reply and self._loop.time() < poll.until:
            self._set(poll)
            return False
        self._end(poll)
        poll.reply(reply)
        return True

    def _set(self, poll: Poll) -> None:
        """Schedule a retry of a poll for the next visible message, or for its end."""
        if poll.timer is not None:
            poll.timer.cancel()
        due = self._model.next_at(str(poll.request["QueueUrl"]))
        at = poll.until
        if due is not None:
            at = min(at, self._loop.time() + max(0.0, due - self._now()) + LATE_S)
        poll.timer = self._loop.call_at(at, self._retry, poll)

    def _end(self, poll: Poll) -> None:
        """Wait no longer."""
        if poll.timer is not None:
            poll.timer.cancel()
        waiting = self._waiting[poll.queue]
        if poll in waiting:
            waiting.remove(poll)
