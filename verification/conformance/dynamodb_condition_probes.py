"""Probe when a DynamoDB condition holds."""

from __future__ import annotations

from verification.conformance.items import all_hold, holds, put
from verification.conformance.probe import probe
from verification.conformance.subject import Subject


@probe("values of two types are never in order, nor equal", expected="no no no yes")
async def _(subject: Subject) -> str:
    await put(subject, n=1)
    tests = ("n < :text", "n > :text", "n = :text", "n <> :text")
    return await all_hold(subject, *tests, text="2")


@probe("what is absent equals nothing, and is before nothing", expected="no no no yes")
async def _(subject: Subject) -> str:
    await put(subject)
    tests = ("n = :one", "n < :one", "n >= :one", "n <> :one")
    return await all_hold(subject, *tests, one=1)


@probe("an absent item meets attribute_not_exists alone", expected="yes no no")
async def _(subject: Subject) -> str:
    tests = ("attribute_not_exists(pk)", "attribute_exists(pk)", "n = :one")
    return await all_hold(subject, *tests, one=1)


@probe("numbers are in order as numbers, texts as texts", expected="yes no yes")
async def _(subject: Subject) -> str:
    await put(subject, n=9, s="9")
    tests = ("n < :n", "s < :s", "s >= :s")
    return await all_hold(subject, *tests, n=10, s="10")


@probe("texts are in the order of their bytes", expected="yes yes yes")
async def _(subject: Subject) -> str:
    await put(subject, s="Z")
    tests = ("s < :lower", "s < :accent", "s < :astral")
    return await all_hold(subject, *tests, lower="a", accent="é", astral="\U0001f600")


@probe("a number equals itself in another spelling", expected="yes yes")
async def _(subject: Subject) -> str:
    await put(subject, n={"N": "1.50"})
    tests = ("n = :short", "n = :power")
    return await all_hold(subject, *tests, short={"N": "1.5"}, power={"N": "15E-1"})


@probe("IN, BETWEEN, begins_with, contains and size", expected="yes yes yes yes yes")
async def _(subject: Subject) -> str:
    await put(subject, s="abc", n=3, set={1, 2})
    tests = (
        "s IN (:x, :abc)",
        "n BETWEEN :one AND :three",
        "begins_with(s, :ab)",
        "contains(#set, :one) AND contains(s, :ab)",
        "size(s) = :three AND size(#set) < n",
    )
    return await all_hold(subject, *tests, x="x", abc="abc", ab="ab", one=1, three=3)


@probe("NOT binds before AND, and AND before OR", expected="yes no yes")
async def _(subject: Subject) -> str:
    await put(subject, a=1)
    return await all_hold(
        subject,
        "a = :one OR a = :two AND a = :two",
        "(a = :one OR a = :two) AND a = :two",
        "NOT a = :two AND NOT (a = :one AND a = :two)",
        one=1,
        two=2,
    )


@probe("a boolean equals itself alone", expected="yes no no")
async def _(subject: Subject) -> str:
    await put(subject, b=True)
    tests = ("b = :true", "b = :false", "b = :one")
    return await all_hold(subject, *tests, true=True, false=False, one=1)


@probe("sets are equal whatever their order", expected="yes")
async def _(subject: Subject) -> str:
    await put(subject, s={"NS": ["10", "9", "8"]})
    return await holds(subject, "s = :s", s={"NS": ["8", "9", "10"]})
