"""Probe SQS messages and handles: delivery, counts, hiding, deletes, dead-lettering."""

from __future__ import annotations

from typing import Any

from verification.conformance.probe import probe
from verification.conformance.sqs_words import (
    opened,
    refusal,
    script,
    send,
    take,
    with_dead_letters,
)
from verification.conformance.subject import Subject

INVALID = "InvalidParameterValue"
MISSING = "AWS.SimpleQueueService.NonExistentQueue"
#: With which of these a handle that holds nothing is refused, AWS leaves open.
REFUSED = (
    INVALID,
    "AWS.SimpleQueueService.MessageNotInflight",
    "ReceiptHandleIsInvalid",
)
#: A queue that hides for a second.
BRIEF = {"VisibilityTimeout": "1"}

# Delivery.

script(
    *("a message that was received is not received again", "a, nothing"),
    "send a; bodies; bodies",
)
script(
    *("a receive's own timeout goes before the queue's", "a, a"),
    "send a; bodies VisibilityTimeout=1; wait; bodies",
    VisibilityTimeout="30",
)
script(
    *("a receive may hide for no time at all", "a, a"),
    "send a; bodies VisibilityTimeout=0; bodies",
)
script(
    *("a delayed message comes later", "nothing, a"),
    "send a DelaySeconds=2; bodies; wait 2; bodies",
)
script(
    *("a receive that waits has what comes meanwhile", "a"),
    "send a DelaySeconds=1; bodies WaitTimeSeconds=3",
)
script(
    *("a receive takes 10 messages at the most", "10, 2"),
    "send a b c d e f g h i j k l; count; count",
)
script(
    *("received too often, a message goes to the DLQ", "a, a, nothing, a"),
    "send a; " + "bodies VisibilityTimeout=0; " * 3 + "bodies dead",
    redrive=2,
)
script(
    *("a receive moves a message to the DLQ", "nothing"),
    "send a; take VisibilityTimeout=0; bodies dead",
    redrive=1,
)

# Handles.

script(
    *("hidden for no more time it is there at once", "accepted, a"),
    "send a; take; trying hide 0; bodies",
)
script(
    *("hidden for longer it stays away", "accepted, nothing"),
    "send a; take; trying hide 30; wait; bodies",
    **BRIEF,
)
script(
    *("12 hours from the receive is the limit of hiding", INVALID),
    "send a; take; wait; hide 43200",
)
script(
    "what is visible again cannot be hidden",
    tuple(f"{code}, a" for code in REFUSED),
    "send a; take; wait; trying hide 30; bodies",
    **BRIEF,
)
script(
    *("what is deleted cannot be hidden", REFUSED),
    "send a; take; delete; trying hide 30",
)
script(
    *("a deleted message does not come back", "accepted, nothing"),
    "send a; take; trying delete; wait; bodies",
    **BRIEF,
)
script(
    *("deleting twice is no error", "accepted, accepted"),
    "send a; take; trying delete; trying delete",
)
script(
    *("a visible message is deleted by its newest handle", "nothing"),
    "send a; take; wait; delete; bodies",
    **BRIEF,
)
script(*("what is no handle does not delete", "ReceiptHandleIsInvalid"), "delete")


@probe("an old handle is taken, and may delete or not", expected="accepted")
async def _(subject: Subject) -> str:
    talk = await opened(subject, **BRIEF)
    await talk.send("a")
    await talk.take()
    await talk.wait()
    await take(subject, talk.url)
    return await refusal(talk.delete())


# Attributes.


@probe("once its time is over it is, and the receives are counted", expected="1, 2")
async def _(subject: Subject) -> str:
    talk, counts = await opened(subject, **BRIEF), []
    await talk.send("a")
    for _ in range(2):
        [found] = await take(subject, talk.url)
        counts.append(found["Attributes"]["ApproximateReceiveCount"])
        await talk.wait()
    return ", ".join(counts)


@probe("each receive has a handle of its own, the first one's time", expected="2 1 1")
async def _(subject: Subject) -> str:
    talk, found = await opened(subject), []
    await talk.send("a")
    for _ in range(2):
        found += await take(subject, talk.url, VisibilityTimeout=0)
        await subject.pass_time(0.05)
    handles = {message["ReceiptHandle"] for message in found}
    ids = {message["MessageId"] for message in found}
    first = "ApproximateFirstReceiveTimestamp"
    times = {message["Attributes"][first] for message in found}
    return f"{len(handles)} {len(ids)} {len(times)}"


@probe("messages are counted as visible, in flight, delayed", expected="1 1 1")
async def _(subject: Subject) -> str:
    talk = await opened(subject)
    await talk.send("a", "b")
    await talk.send("c", DelaySeconds=900)
    await talk.take(MaxNumberOfMessages=1)
    names = [f"ApproximateNumberOfMessages{w}" for w in ("", "NotVisible", "Delayed")]
    reply = await subject.sqs.get_queue_attributes(
        QueueUrl=talk.url, AttributeNames=names
    )
    return " ".join(reply["Attributes"][name] for name in names)


@probe("what is not there or not asked for has no name", expected="False False")
async def _(subject: Subject) -> str:
    talk = await opened(subject)
    empty = await subject.sqs.receive_message(QueueUrl=talk.url)
    await talk.send("a")
    [found] = (await subject.sqs.receive_message(QueueUrl=talk.url))["Messages"]
    return f"{'Messages' in empty} {'Attributes' in found}"


@probe("a message in the DLQ keeps its id and age", expected="True True")
async def _(subject: Subject) -> str:
    first, moved, _ = await exceeded(subject)
    then, now = (m["Attributes"]["SentTimestamp"] for m in (first, moved))
    return f"{first['MessageId'] == moved['MessageId']} {then == now}"


@probe("a message in the DLQ names its source queue", expected="its queue's ARN")
async def _(subject: Subject) -> str:
    _, moved, url = await exceeded(subject)
    arn = moved["Attributes"].get("DeadLetterQueueSourceArn", "")
    matches = arn.rpartition(":")[2] == url.rpartition("/")[2]
    return "its queue's ARN" if matches else f"{arn or 'nothing'}"


async def exceeded(subject: Subject) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Receive a message too often; return it as first and last seen, and its queue."""
    url, dead = await with_dead_letters(subject, 2)
    await send(subject, url, "a")
    [first] = await take(subject, url, VisibilityTimeout=0)
    await take(subject, url, VisibilityTimeout=0)
    await take(subject, url, VisibilityTimeout=0)
    [moved] = await take(subject, dead)
    return first, moved, url


@probe("a queue that is not there has no URL", expected=MISSING)
async def _(subject: Subject) -> str:
    return await refusal(subject.sqs.get_queue_url(QueueName="nobodys-queue"))


@probe("nor does it take messages", expected=f"{MISSING}, {MISSING}")
async def _(subject: Subject) -> str:
    where = {"QueueUrl": f"{await subject.queue()}-not"}
    sent = await refusal(subject.sqs.send_message(**where, MessageBody="a"))
    return f"{sent}, {await refusal(subject.sqs.receive_message(**where))}"
