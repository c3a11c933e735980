"""Probe SQS requests: accepted, partly refused, refused."""

from __future__ import annotations

from typing import Any

from verification.conformance.probe import probe
from verification.conformance.sqs_words import (
    received,
    script,
    take,
)
from verification.conformance.subject import Subject

LIMIT = 1_048_576
INVALID = "InvalidParameterValue"
NAMESPACE = "AWS.SimpleQueueService."
ODD = 'tab\t"<&>"\u00e9\U0001f600\ufffd'

script("a body comes back as it was sent", ODD, f"send {ODD}; bodies")
script("a message needs a body", "MissingParameter", "send ")
script("a body has no control characters", "InvalidMessageContents", "send a\x00b")
script("nor what is no character at all", "InvalidMessageContents", "send a\uffffb")
script(
    *("a message has 1 MiB at the most", f"accepted, {INVALID}"),
    f"trying send {'x' * LIMIT}; trying send {'x' * (LIMIT + 1)}",
)
script("the size is that of the bytes", INVALID, f"send {chr(0xE9) * (LIMIT // 2 + 1)}")
script("a message is delayed for 900 s at the most", INVALID, "send a DelaySeconds=901")
script(
    *("a receive takes 1 to 10 messages", f"{INVALID}, {INVALID}"),
    "trying take MaxNumberOfMessages=0; trying take MaxNumberOfMessages=11",
)
script(
    *("a receive hides for 12 hours at the most", f"accepted, {INVALID}"),
    "trying take VisibilityTimeout=43200; trying take VisibilityTimeout=43201",
)
script(
    *("a receive waits for 20 s at the most", INVALID),
    "send a; take WaitTimeSeconds=21",
)
script(
    *("a message is hidden for 12 hours at the most", INVALID),
    "send a; take; hide 43201",
)


def batch(name: str, expected: str, *entries: tuple[str, str]) -> None:
    """Register a probe that sends a batch of ids and bodies."""

    @probe(name, expected=expected)
    async def _(subject: Subject) -> str:
        reply = await subject.sqs.send_message_batch(
            QueueUrl=await subject.queue(),
            Entries=[{"Id": entry, "MessageBody": body} for entry, body in entries],
        )
        return outcome(reply)


def outcome(reply: Any) -> str:
    """Return the successful and failed entries, and whether the sender is at fault."""
    done = "".join(entry["Id"] for entry in reply.get("Successful", []))
    failed = [
        f"{entry['Id']} {entry['Code']} {'sender' if entry['SenderFault'] else 'SQS'}"
        for entry in reply.get("Failed", [])
    ]
    return "; ".join([f"done {done}", *failed])


batch(
    *("a batch has 1 MiB at the most", f"{NAMESPACE}BatchRequestTooLong"),
    *((entry, "x" * (LIMIT // 2 + 1)) for entry in "01"),
)
batch(
    *("a batch has 10 entries at the most", f"{NAMESPACE}TooManyEntriesInBatchRequest"),
    *((f"{number}", "a") for number in range(11)),
)
batch("a batch has an entry at least", f"{NAMESPACE}EmptyBatchRequest")
batch(
    *("the ids of a batch differ", f"{NAMESPACE}BatchEntryIdsNotDistinct"),
    *(("0", "a"), ("0", "b")),
)
batch(
    *("an id is letters, digits, hyphens", f"{NAMESPACE}InvalidBatchEntryId"),
    ("a b", "a"),
)
batch(
    "one bad entry fails alone, and says whose fault it is",
    "done 0; 1 InvalidMessageContents sender",
    *(("0", "a"), ("1", "a\x00")),
)


@probe("a sent message's id and digest are those received", expected="the same")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    reply = await subject.sqs.send_message(QueueUrl=url, MessageBody="a")
    [found] = await take(subject, url)
    facts = reply["MessageId"], reply["MD5OfMessageBody"]
    same = facts == (found["MessageId"], found["MD5OfBody"])
    return "the same" if same else "others"


async def by_handles(subject: Subject, operation: str, **each: int) -> str:
    """Do something in a batch, with a valid handle and an invalid one."""
    url, handle = await received(subject)
    entries = [
        {"Id": f"{number}", "ReceiptHandle": one, **each}
        for number, one in enumerate((handle, "nobody's"))
    ]
    reply = await getattr(subject.sqs, operation)(QueueUrl=url, Entries=entries)
    found = await take(subject, url)
    return f"{outcome(reply)}; {len(found)} visible"


DONE = "done 0; 1 ReceiptHandleIsInvalid sender"


@probe("a batch of hides does what it can", expected=f"{DONE}; 1 visible")
async def _(subject: Subject) -> str:
    operation = "change_message_visibility_batch"
    return await by_handles(subject, operation, VisibilityTimeout=0)


@probe("a batch of deletes does what it can", expected=f"{DONE}; 0 visible")
async def _(subject: Subject) -> str:
    return await by_handles(subject, "delete_message_batch")
