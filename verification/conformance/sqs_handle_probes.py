"""Probe receipt handles: visibility changes and deletes."""

from __future__ import annotations

from verification.conformance.probe import KNOWN, probe
from verification.conformance.sqs_words import (
    SHORTLY,
    bodies,
    delete,
    hide,
    received,
    take,
)
from verification.conformance.subject import Subject

INVALID = "InvalidParameterValue"


@probe("hidden for no more time it is there at once", expected="accepted, a")
async def _(subject: Subject) -> str:
    url, handle = await received(subject)
    return f"{await hide(subject, url, handle, 0)}, {await bodies(subject, url)}"


@probe("hidden for longer it stays away", expected="accepted, nothing")
async def _(subject: Subject) -> str:
    url, handle = await received(subject, VisibilityTimeout="1")
    answer = await hide(subject, url, handle, 30)
    await subject.pass_time(SHORTLY)
    return f"{answer}, {await bodies(subject, url)}"


@probe("12 hours from the receive is the limit of hiding", expected=INVALID)
async def _(subject: Subject) -> str:
    url, handle = await received(subject)
    await subject.pass_time(SHORTLY)
    return await hide(subject, url, handle, 43_200)


@probe("what is visible again cannot be hidden", expected="refused, a")
async def _(subject: Subject) -> str:
    url, handle = await received(subject, VisibilityTimeout="1")
    await subject.pass_time(SHORTLY)
    answer = await hide(subject, url, handle, 30)
    refused = "accepted" if answer == "accepted" else "refused"
    return f"{refused}, {await bodies(subject, url)}"


@probe("what is deleted cannot be hidden", expected="refused")
async def _(subject: Subject) -> str:
    url, handle = await received(subject)
    await delete(subject, url, handle)
    answer = await hide(subject, url, handle, 30)
    return "accepted" if answer == "accepted" else "refused"


@probe("a deleted message does not come back", expected="accepted, nothing")
async def _(subject: Subject) -> str:
    url, handle = await received(subject, VisibilityTimeout="1")
    answer = await delete(subject, url, handle)
    await subject.pass_time(SHORTLY)
    return f"{answer}, {await bodies(subject, url)}"


@probe("deleting twice is no error", expected="accepted, accepted")
async def _(subject: Subject) -> str:
    url, handle = await received(subject)
    first = await delete(subject, url, handle)
    return f"{first}, {await delete(subject, url, handle)}"


@probe("a visible message is deleted by its newest handle", expected="nothing")
async def _(subject: Subject) -> str:
    url, handle = await received(subject, VisibilityTimeout="1")
    await subject.pass_time(SHORTLY)
    await delete(subject, url, handle)
    return await bodies(subject, url)


@probe("an old handle is taken, and may delete or not", expected="accepted")
async def _(subject: Subject) -> str:
    url, handle = await received(subject, VisibilityTimeout="1")
    await subject.pass_time(SHORTLY)
    await take(subject, url)
    return await delete(subject, url, handle)


@probe("what is no handle does not delete", expected="ReceiptHandleIsInvalid")
async def _(subject: Subject) -> str:
    return await delete(subject, await subject.queue(), "nobody's")


KNOWN.update(
    {
        ("12 hours from the receive is the limit of hiding", "ministack"): (
            "accepted",
            "does not look at the length of a timeout",
        ),
        ("what is visible again cannot be hidden", "ministack"): (
            "accepted, nothing",
            "looks for the handle alone",
        ),
        ("what is visible again cannot be hidden", "moto"): (
            "accepted, nothing",
            "looks for the handle alone",
        ),
        ("deleting twice is no error", "ministack"): (
            "accepted, ReceiptHandleIsInvalid",
            "knows the handles of messages that are there",
        ),
        ("an old handle is taken, and may delete or not", "ministack"): (
            "ReceiptHandleIsInvalid",
            "knows the newest handle of a message",
        ),
    }
)
