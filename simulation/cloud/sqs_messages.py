"""Store a standard queue's messages: visible, hidden and expired ones.

Two heaps make the cost of a receive independent of the number of messages. One orders
hidden messages by time, the other orders visible messages by age. Heap entries may be
out of date; the message itself is authoritative.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

ACCOUNT = "000000000000"
REGION = "us-east-1"


@dataclass(slots=True)
class Stored:
    """A message as one queue stores it.

    Attributes:
        serial: Its unique number, which its receipt handles contain. A copy of a
            message has the same message id and another serial.
        receives: The time of each receive.
        returned: It was deleted already, and became visible again.
        place: Its position in the arrival order of its queue.
    """

    serial: int
    message_id: str
    body: str
    sent_at: float
    visible_at: float
    receives: list[float] = field(default_factory=list)
    source_arn: str | None = None
    returned: bool = False
    place: int = 0


@dataclass(slots=True)
class MessageQueue:
    """One queue.

    Attributes:
        dead: The queue for messages that were received `most_receives` times.
        oldest: A lower bound of the send time of all messages.
    """

    name: str
    visibility_s: float
    retention_s: float
    dead: MessageQueue | None
    most_receives: int
    created_at: float
    messages: dict[int, Stored] = field(default_factory=dict)
    oldest: float = float("inf")
    _hidden: list[tuple[float, int]] = field(default_factory=list)
    _visible: dict[int, Stored] = field(default_factory=dict)
    _order: list[tuple[int, int]] = field(default_factory=list)
    _came: int = 0

    url: str = field(init=False)
    arn: str = field(init=False)

    def __post_init__(self) -> None:
        """Compute the queue's URL and ARN."""
        self.url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{self.name}"
        self.arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name}"

    def add(self, message: Stored) -> None:
        """Store a message, as old as it is."""
        self._came += 1
        message.place = self._came
        self.messages[message.serial] = message
        self.oldest = min(self.oldest, message.sent_at)
        self.hide(message, message.visible_at)

    def hide(self, message: Stored, until: float) -> None:
        """Hide a message until then."""
        message.visible_at = until
        self._visible.pop(message.serial, None)
        heappush(self._hidden, (until, message.serial))

    def remove(self, message: Stored) -> None:
        """Forget a message."""
        del self.messages[message.serial]
        self._visible.pop(message.serial, None)

    def expire(self, now: float) -> None:
        """Remove messages older than the retention period, in flight or not."""
        if now - self.oldest < self.retention_s:
            return
        kept = [m for m in self.messages.values() if now - m.sent_at < self.retention_s]
        self.messages = {m.serial: m for m in kept}
        self._visible = {n: m for n, m in self._visible.items() if n in self.messages}
        self.oldest = min((m.sent_at for m in kept), default=float("inf"))

    def appear(self, now: float) -> int:
        """Make due messages visible; return the number of visible messages."""
        while self._next_hidden() <= now:
            _, serial = heappop(self._hidden)
            message = self._visible[serial] = self.messages[serial]
            heappush(self._order, (message.place, serial))
        return len(self._visible)

    def take(self, place: int) -> Stored:
        """Return a visible message, by its place in the arrival order.

        The message is then neither visible nor hidden; the caller must hide or remove
        it.
        """
        if place:
            in_order = sorted(self._visible.values(), key=lambda m: m.place)
            return self._visible.pop(in_order[place].serial)
        while True:
            message = self._visible.pop(heappop(self._order)[1], None)
            if message is not None:
                return message

    def next_at(self) -> float | None:
        """Return when the next message becomes visible before it expires."""
        times = [m.visible_at for m in self._visible.values()]
        found = min([self._next_hidden(), *times])
        return None if found == float("inf") else found

    def _next_hidden(self) -> float:
        """Return when the next hidden message becomes visible before it expires."""
        while self._hidden:
            at, serial = self._hidden[0]
            message = self.messages.get(serial)
            if (
                message is not None
                and serial not in self._visible
                and at == message.visible_at < message.sent_at + self.retention_s
            ):
                return at
            heappop(self._hidden)
        return float("inf")

    def counts(self, now: float) -> dict[str, int]:
        """Return the numbers that AWS calls approximate."""
        visible = in_flight = delayed = 0
        for message in self.messages.values():
            if message.visible_at <= now:
                visible += 1
            elif message.receives:
                in_flight += 1
            else:
                delayed += 1
        return {
            "ApproximateNumberOfMessages": visible,
            "ApproximateNumberOfMessagesNotVisible": in_flight,
            "ApproximateNumberOfMessagesDelayed": delayed,
        }

    def handle(self, message: Stored) -> str:
        """Return the receipt handle of a message's newest receive."""
        return f"{self.name}/{message.serial}/{len(message.receives)}"
