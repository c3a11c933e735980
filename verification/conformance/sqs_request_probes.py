"""Probe SQS requests: accepted, partly refused, refused."""

from __future__ import annotations

from typing import Any

from verification.conformance.probe import KNOWN, probe
from verification.conformance.sqs_words import (
    bodies,
    hide,
    received,
    refusal,
    send,
    take,
)
from verification.conformance.subject import Subject

LIMIT = 1_048_576
INVALID = "InvalidParameterValue"
NAMESPACE = "AWS.SimpleQueueService."


async def send_batch(subject: Subject, *entries: tuple[str, str]) -> Any:
    """Send a batch of ids and bodies to a new queue."""
    return await subject.sqs.send_message_batch(
        QueueUrl=await subject.queue(),
        Entries=[{"Id": entry, "MessageBody": body} for entry, body in entries],
    )


def outcome(reply: Any) -> str:
    """Return the successful and failed entries, and whether the sender is at fault."""
    done = "".join(entry["Id"] for entry in reply.get("Successful", []))
    failed = [
        f"{entry['Id']} {entry['Code']} {'sender' if entry['SenderFault'] else 'SQS'}"
        for entry in reply.get("Failed", [])
    ]
    return "; ".join([f"done {done}", *failed])


async def sent(subject: Subject, body: str) -> str:
    """Send a body to a new queue; return the refusal, if it is one."""
    url = await subject.queue()
    return await refusal(subject.sqs.send_message(QueueUrl=url, MessageBody=body))


@probe("a body comes back as it was sent", expected="the same")
async def _(subject: Subject) -> str:
    url, body = await subject.queue(), 'tab\t line\n"<&>" \u00e9 \U0001f600 \ufffd'
    await send(subject, url, body)
    return "the same" if await bodies(subject, url) == body else "another"


@probe("a message needs a body", expected="MissingParameter")
async def _(subject: Subject) -> str:
    return await sent(subject, "")


@probe("a body has no control characters", expected="InvalidMessageContents")
async def _(subject: Subject) -> str:
    return await sent(subject, "a\x00b")


@probe("nor what is no character at all", expected="InvalidMessageContents")
async def _(subject: Subject) -> str:
    return await sent(subject, "a\uffffb")


@probe("a message has 1 MiB at the most", expected=f"accepted, {INVALID}")
async def _(subject: Subject) -> str:
    just = await sent(subject, "x" * LIMIT)
    return f"{just}, {await sent(subject, 'x' * (LIMIT + 1))}"


@probe("the size is that of the bytes", expected=INVALID)
async def _(subject: Subject) -> str:
    return await sent(subject, "\u00e9" * (LIMIT // 2 + 1))


@probe("a batch has 1 MiB at the most", expected=f"{NAMESPACE}BatchRequestTooLong")
async def _(subject: Subject) -> str:
    half = "x" * (LIMIT // 2 + 1)
    return await refusal(send_batch(subject, ("0", half), ("1", half)))


@probe(
    "a batch has 10 entries at the most",
    expected=f"{NAMESPACE}TooManyEntriesInBatchRequest",
)
async def _(subject: Subject) -> str:
    entries = [(str(number), "a") for number in range(11)]
    return await refusal(send_batch(subject, *entries))


@probe("a batch has an entry at least", expected=f"{NAMESPACE}EmptyBatchRequest")
async def _(subject: Subject) -> str:
    return await refusal(send_batch(subject))


@probe("the ids of a batch differ", expected=f"{NAMESPACE}BatchEntryIdsNotDistinct")
async def _(subject: Subject) -> str:
    return await refusal(send_batch(subject, ("0", "a"), ("0", "b")))


@probe("an id is letters, digits, hyphens", expected=f"{NAMESPACE}InvalidBatchEntryId")
async def _(subject: Subject) -> str:
    return await refusal(send_batch(subject, ("a b", "a")))


@probe(
    "one bad entry fails alone, and says whose fault it is",
    expected="done 0; 1 InvalidMessageContents sender",
)
async def _(subject: Subject) -> str:
    return outcome(await send_batch(subject, ("0", "a"), ("1", "a\x00")))


@probe("a sent message's id and digest are those received", expected="the same")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    reply = await subject.sqs.send_message(QueueUrl=url, MessageBody="a")
    [found] = await take(subject, url)
    facts = reply["MessageId"], reply["MD5OfMessageBody"]
    same = facts == (found["MessageId"], found["MD5OfBody"])
    return "the same" if same else "others"


@probe(
    "a batch of hides does what it can",
    expected="done 0; 1 ReceiptHandleIsInvalid sender; a",
)
async def _(subject: Subject) -> str:
    url, handle = await received(subject)
    entries = [
        {"Id": "0", "ReceiptHandle": handle, "VisibilityTimeout": 0},
        {"Id": "1", "ReceiptHandle": "nobody's", "VisibilityTimeout": 0},
    ]
    change = subject.sqs.change_message_visibility_batch
    reply = await change(QueueUrl=url, Entries=entries)
    return f"{outcome(reply)}; {await bodies(subject, url)}"


@probe(
    "a batch of deletes does what it can",
    expected="done 0; 1 ReceiptHandleIsInvalid sender",
)
async def _(subject: Subject) -> str:
    url, handle = await received(subject)
    entries = [
        {"Id": "0", "ReceiptHandle": handle},
        {"Id": "1", "ReceiptHandle": "nobody's"},
    ]
    delete = subject.sqs.delete_message_batch
    return outcome(await delete(QueueUrl=url, Entries=entries))


@probe("a message is delayed for 900 s at the most", expected=INVALID)
async def _(subject: Subject) -> str:
    url = await subject.queue()
    return await refusal(
        subject.sqs.send_message(QueueUrl=url, MessageBody="a", DelaySeconds=901)
    )


@probe("a receive takes 1 to 10 messages", expected=f"{INVALID}, {INVALID}")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    answers = [
        await refusal(take(subject, url, MaxNumberOfMessages=most)) for most in (0, 11)
    ]
    return ", ".join(answers)


@probe("a receive hides for 12 hours at the most", expected=f"accepted, {INVALID}")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    answers = [
        await refusal(take(subject, url, VisibilityTimeout=seconds))
        for seconds in (43_200, 43_201)
    ]
    return ", ".join(answers)


@probe("a receive waits for 20 s at the most", expected=INVALID)
async def _(subject: Subject) -> str:
    url = await subject.queue()
    await send(subject, url, "a")
    return await refusal(take(subject, url, WaitTimeSeconds=21))


@probe("a message is hidden for 12 hours at the most", expected=INVALID)
async def _(subject: Subject) -> str:
    url, handle = await received(subject)
    return await hide(subject, url, handle, 43_201)


CHARACTERS = "does not look at a body's characters"
NUMBERS = "does not look at the number's size"
KNOWN.update(
    {
        ("a message needs a body", "moto"): ("accepted", "does not look for one"),
        ("a body has no control characters", "moto"): ("accepted", CHARACTERS),
        ("nor what is no character at all", "moto"): ("accepted", CHARACTERS),
        ("one bad entry fails alone, and says whose fault it is", "moto"): (
            "done 01",
            CHARACTERS,
        ),
        ("the size is that of the bytes", "moto"): ("accepted", "counts characters"),
        ("a message is delayed for 900 s at the most", "ministack"): (
            "accepted",
            NUMBERS,
        ),
        ("a receive hides for 12 hours at the most", "ministack"): (
            "accepted, accepted",
            NUMBERS,
        ),
        ("a receive waits for 20 s at the most", "ministack"): ("accepted", NUMBERS),
        ("a message is hidden for 12 hours at the most", "ministack"): (
            "accepted",
            NUMBERS,
        ),
    }
)
