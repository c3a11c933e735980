"""Words in which the questions to SQS are asked, one after another, of a new queue."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from verification.conformance.probe import probe
from verification.conformance.subject import Subject

#: A little longer than the shortest time that a message can be hidden for.
SHORTLY = 1.1


async def refusal(call: Awaitable[Any]) -> str:
    """Return the code with which a call is refused."""
    try:
        await call
    except ClientError as error:
        return error.response["Error"]["Code"]
    return "accepted"


async def send(subject: Subject, url: str, *bodies: str, **more: Any) -> None:
    """Send messages one by one."""
    for body in bodies:
        await subject.sqs.send_message(QueueUrl=url, MessageBody=body, **more)


async def take(subject: Subject, url: str, **more: Any) -> list[Any]:
    """Return up to 10 messages, with all their attributes."""
    request = {"MaxNumberOfMessages": 10, "AttributeNames": ["All"], **more}
    reply = await subject.sqs.receive_message(QueueUrl=url, **request)
    return list(reply.get("Messages", []))


async def with_dead_letters(subject: Subject, most: int) -> tuple[str, str]:
    """Return a queue, and the one to which its messages go after so many receives."""
    dead = await subject.queue()
    return await subject.queue(redrive=(dead, most)), dead


@dataclass(slots=True)
class Talk:
    """A queue, and what is asked of it: each method is a word of a script.

    Attributes:
        dead: Its dead-letter queue, if there is one.
        handle: That of the message received last.
    """

    subject: Subject
    url: str
    dead: str = ""
    handle: str = "nobody's"

    async def send(self, *bodies: str, **more: int) -> None:
        await send(self.subject, self.url, *bodies, **more)

    async def take(self, **more: int) -> None:
        for message in await take(self.subject, self.url, **more):
            self.handle = message["ReceiptHandle"]

    async def bodies(self, where: str = "url", **more: int) -> str:
        """Receive, here or from the dead-letter queue; return the bodies."""
        found = await take(self.subject, getattr(self, where), **more)
        return " ".join(sorted(message["Body"] for message in found)) or "nothing"

    async def count(self) -> str:
        return str(len(await take(self.subject, self.url)))

    async def wait(self, shortly: str = "1") -> None:
        await self.subject.pass_time(float(shortly) - 1 + SHORTLY)

    async def hide(self, seconds: str) -> None:
        await self.subject.sqs.change_message_visibility(
            QueueUrl=self.url,
            ReceiptHandle=self.handle,
            VisibilityTimeout=int(seconds),
        )

    async def delete(self) -> None:
        await self.subject.sqs.delete_message(
            QueueUrl=self.url, ReceiptHandle=self.handle
        )

    async def say(self, line: str) -> str:
        """Do what a line says; return what it shows, or the refusal.

        `trying` before a word shows whether it is accepted.
        """
        trying, line = line.startswith("trying "), line.removeprefix("trying ")
        word, *given = line.split(" ")
        more = {k: int(v) for k, _, v in (g.partition("=") for g in given) if v}
        call = getattr(self, word)(*(g for g in given if "=" not in g), **more)
        return await refusal(call) if trying else await call or ""


def script(
    name: str,
    expected: str | tuple[str, ...],
    lines: str,
    *,
    redrive: int = 0,
    **attributes: str,
) -> None:
    """Register a probe that says lines to a new queue, and shows what they show."""

    @probe(name, expected=expected, service="sqs")
    async def _(subject: Subject) -> str:
        talk = await opened(subject, redrive, **attributes)
        shown = [await talk.say(line) for line in lines.split("; ")]
        return ", ".join(filter(None, shown))


async def opened(subject: Subject, redrive: int = 0, **attributes: str) -> Talk:
    """Return a new queue, with a dead-letter queue after so many receives."""
    if redrive:
        return Talk(subject, *await with_dead_letters(subject, redrive))
    return Talk(subject, await subject.queue(**attributes))


async def received(subject: Subject) -> tuple[str, str]:
    """Return a queue, and the handle of the one message in it, received just now."""
    talk = await opened(subject)
    await talk.send("a")
    await talk.take()
    return talk.url, talk.handle
