"""Provide helpers for the SQS probes."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from botocore.exceptions import ClientError

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


async def bodies(subject: Subject, url: str, **more: Any) -> str:
    """Return the bodies of the receivable messages."""
    found = [message["Body"] for message in await take(subject, url, **more)]
    return " ".join(sorted(found)) or "nothing"


async def hide(subject: Subject, url: str, handle: str, seconds: int) -> str:
    """Change how long a message is hidden; return the refusal, if it is one."""
    return await refusal(
        subject.sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=seconds
        )
    )


async def delete(subject: Subject, url: str, handle: str) -> str:
    """Delete a message; return the refusal, if it is one."""
    return await refusal(subject.sqs.delete_message(QueueUrl=url, ReceiptHandle=handle))


async def received(subject: Subject, **attributes: str) -> tuple[str, str]:
    """Return a queue, and the handle of the one message in it, received just now."""
    url = await subject.queue(**attributes)
    await send(subject, url, "a")
    [message] = await take(subject, url)
    return url, message["ReceiptHandle"]


async def with_dead_letters(subject: Subject, most: int) -> tuple[str, str]:
    """Return a queue, and the one to which its messages go after so many receives."""
    dead = await subject.queue()
    return await subject.queue(redrive=(dead, most)), dead


async def worn_out(subject: Subject) -> tuple[dict[str, str], dict[str, Any], str]:
    """Wear a message out; return its attributes before, it as buried, the source."""
    url, dead = await with_dead_letters(subject, 2)
    await send(subject, url, "a")
    [first] = await take(subject, url, VisibilityTimeout=0)
    await take(subject, url, VisibilityTimeout=0)
    await take(subject, url, VisibilityTimeout=0)
    [buried] = await take(subject, dead)
    return {**first["Attributes"], "MessageId": first["MessageId"]}, buried, url
