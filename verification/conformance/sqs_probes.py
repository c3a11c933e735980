"""Probe SQS messages: delivery, counts, dead-lettering."""

from __future__ import annotations

from verification.conformance.probe import KNOWN, probe
from verification.conformance.sqs_words import (
    SHORTLY,
    bodies,
    refusal,
    send,
    take,
    with_dead_letters,
    worn_out,
)
from verification.conformance.subject import Subject

MISSING = "AWS.SimpleQueueService.NonExistentQueue"


@probe("a message that was received is not received again", expected="a, nothing")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    await send(subject, url, "a")
    return f"{await bodies(subject, url)}, {await bodies(subject, url)}"


@probe("once its time is over it is, and the receives are counted", expected="1, 2")
async def _(subject: Subject) -> str:
    url = await subject.queue(VisibilityTimeout="1")
    await send(subject, url, "a")
    counts = []
    for _ in range(2):
        [found] = await take(subject, url)
        counts.append(found["Attributes"]["ApproximateReceiveCount"])
        await subject.pass_time(SHORTLY)
    return ", ".join(counts)


@probe("a receive's own timeout goes before the queue's", expected="a, a")
async def _(subject: Subject) -> str:
    url = await subject.queue(VisibilityTimeout="30")
    await send(subject, url, "a")
    first = await bodies(subject, url, VisibilityTimeout=1)
    await subject.pass_time(SHORTLY)
    return f"{first}, {await bodies(subject, url)}"


@probe("a receive may hide for no time at all", expected="a, a")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    await send(subject, url, "a")
    first = await bodies(subject, url, VisibilityTimeout=0)
    return f"{first}, {await bodies(subject, url)}"


@probe("each receive has a handle of its own", expected="2 handles of 1 message")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    await send(subject, url, "a")
    found = [(await take(subject, url, VisibilityTimeout=0))[0] for _ in range(2)]
    handles = len({message["ReceiptHandle"] for message in found})
    return f"{handles} handles of {len({m['MessageId'] for m in found})} message"


@probe("the first receive's time stays", expected="the same")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    await send(subject, url, "a")
    moments = set()
    for _ in range(2):
        [found] = await take(subject, url, VisibilityTimeout=0)
        moments.add(found["Attributes"]["ApproximateFirstReceiveTimestamp"])
        await subject.pass_time(0.05)
    return "the same" if len(moments) == 1 else "another"


@probe("a delayed message comes later", expected="nothing, a")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    await send(subject, url, "a", DelaySeconds=2)
    first = await bodies(subject, url)
    await subject.pass_time(1 + SHORTLY)
    return f"{first}, {await bodies(subject, url)}"


@probe("a receive that waits has what comes meanwhile", expected="a")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    await send(subject, url, "a", DelaySeconds=1)
    return await bodies(subject, url, WaitTimeSeconds=3)


@probe("messages are counted as visible, in flight, delayed", expected="1 1 1")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    await send(subject, url, "a", "b")
    await send(subject, url, "c", DelaySeconds=900)
    await take(subject, url, MaxNumberOfMessages=1)
    names = [f"ApproximateNumberOfMessages{w}" for w in ("", "NotVisible", "Delayed")]
    reply = await subject.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return " ".join(reply["Attributes"][name] for name in names)


@probe("a receive takes 10 messages at the most", expected="10, 2")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    await send(subject, url, *"abcdefghijkl")
    found = [len(await take(subject, url)) for _ in range(2)]
    return ", ".join(map(str, found))


@probe("an empty receive names no messages", expected="no Messages")
async def _(subject: Subject) -> str:
    reply = await subject.sqs.receive_message(QueueUrl=await subject.queue())
    return "Messages" if "Messages" in reply else "no Messages"


@probe("who asks for no attributes gets none", expected="no Attributes")
async def _(subject: Subject) -> str:
    url = await subject.queue()
    await send(subject, url, "a")
    reply = await subject.sqs.receive_message(QueueUrl=url)
    return "Attributes" if "Attributes" in reply["Messages"][0] else "no Attributes"


@probe("received too often, a message is buried", expected="a, a, nothing; buried a")
async def _(subject: Subject) -> str:
    url, dead = await with_dead_letters(subject, 2)
    await send(subject, url, "a")
    found = [await bodies(subject, url, VisibilityTimeout=0) for _ in range(3)]
    return f"{', '.join(found)}; buried {await bodies(subject, dead)}"


@probe("a message is buried by a receive and not before", expected="nothing")
async def _(subject: Subject) -> str:
    url, dead = await with_dead_letters(subject, 1)
    await send(subject, url, "a")
    await take(subject, url, VisibilityTimeout=0)
    return await bodies(subject, dead)


@probe("a buried message is as old as it was", expected="the same")
async def _(subject: Subject) -> str:
    before, buried, _ = await worn_out(subject)
    after = buried["Attributes"]["SentTimestamp"]
    return "the same" if before["SentTimestamp"] == after else "another"


@probe("a buried message keeps its id", expected="the same")
async def _(subject: Subject) -> str:
    before, buried, _ = await worn_out(subject)
    return "the same" if before["MessageId"] == buried["MessageId"] else "another"


@probe("a buried message says which queue it was in", expected="its queue's ARN")
async def _(subject: Subject) -> str:
    _, buried, url = await worn_out(subject)
    arn = buried["Attributes"].get("DeadLetterQueueSourceArn", "")
    matches = arn.rpartition(":")[2] == url.rpartition("/")[2]
    return "its queue's ARN" if matches else f"{arn or 'nothing'}"


@probe("a queue that is not there has no URL", expected=MISSING)
async def _(subject: Subject) -> str:
    return await refusal(subject.sqs.get_queue_url(QueueName="nobodys-queue"))


@probe("nor does it take messages", expected=f"{MISSING}, {MISSING}")
async def _(subject: Subject) -> str:
    where = {"QueueUrl": f"{await subject.queue()}-not"}
    sent = await refusal(subject.sqs.send_message(**where, MessageBody="a"))
    return f"{sent}, {await refusal(subject.sqs.receive_message(**where))}"


KNOWN[("a buried message says which queue it was in", "moto")] = (
    "nothing",
    "does not know the attribute",
)
