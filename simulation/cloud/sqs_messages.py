"""A standard queue's messages: what is there, what is visible, what has expired."""

from __future__ import annotations

from dataclasses import dataclass, field

ACCOUNT = "000000000000"
REGION = "us-east-1"


@dataclass(slots=True)
class Stored:
    """A message as one queue stores it.

    Attributes:
        serial: Its place in the queue, and what a receipt handle names: a copy of a
            message has the message's id and a serial of its own.
        receives: When it was handed out, each time.
        returned: It was deleted already, and came back.
    """

    serial: int
    message_id: str
    body: str
    sent_at: float
    visible_at: float
    receives: list[float] = field(default_factory=list)
    source_arn: str | None = None
    returned: bool = False


@dataclass(slots=True)
class MessageQueue:
    """One queue.

    Attributes:
        dead: Where messages go that were handed out `most_receives` times.
        oldest: No message is older than this; the oldest may have been deleted since.
    """

    name: str
    visibility_s: float
    retention_s: float
    dead: MessageQueue | None
    most_receives: int
    created_at: float
    messages: dict[int, Stored] = field(default_factory=dict)
    oldest: float = float("inf")

    url: str = field(init=False)
    arn: str = field(init=False)

    def __post_init__(self) -> None:
        """Put together what the queue is called elsewhere."""
        self.url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{self.name}"
        self.arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name}"

    def add(self, message: Stored) -> None:
        """Store a message, as old as it is."""
        self.messages[message.serial] = message
        self.oldest = min(self.oldest, message.sent_at)

    def expire(self, now: float) -> None:
        """Drop what is older than the queue keeps, in flight or not."""
        if now - self.oldest < self.retention_s:
            return
        kept = [m for m in self.messages.values() if now - m.sent_at < self.retention_s]
        self.messages = {m.serial: m for m in kept}
        self.oldest = min((m.sent_at for m in kept), default=float("inf"))

    def visible(self, now: float) -> list[Stored]:
        """Return what may be handed out, in the order in which it came."""
        return [m for m in self.messages.values() if m.visible_at <= now]

    def next_at(self) -> float | None:
        """Return when the next message becomes visible before it expires."""
        keep = self.retention_s
        times = (
            m.visible_at
            for m in self.messages.values()
            if m.visible_at < m.sent_at + keep
        )
        return min(times, default=None)

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
