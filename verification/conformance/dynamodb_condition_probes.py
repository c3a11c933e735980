"""Probe when a DynamoDB condition holds."""

from __future__ import annotations

from verification.conformance.items import condition_probe

condition_probe(
    *("values of two types are never in order, nor equal", "no no no yes"),
    *("n < :text", "n > :text", "n = :text", "n <> :text"),
    before={"n": 1},
    text="2",
)
condition_probe(
    *("what is absent equals nothing, and is before nothing", "no no no yes"),
    *("n = :one", "n < :one", "n >= :one", "n <> :one"),
    before={},
    one=1,
)
condition_probe(
    *("an absent item meets attribute_not_exists alone", "yes no no"),
    *("attribute_not_exists(pk)", "attribute_exists(pk)", "n = :one"),
    one=1,
)
condition_probe(
    *("numbers are in order as numbers, texts as texts", "yes no yes"),
    *("n < :n", "s < :s", "s >= :s"),
    before={"n": 9, "s": "9"},
    n=10,
    s="10",
)
condition_probe(
    *("texts are in the order of their bytes", "yes yes yes"),
    *("s < :lower", "s < :accent", "s < :astral"),
    before={"s": "Z"},
    lower="a",
    accent="é",
    astral="\U0001f600",
)
condition_probe(
    *("a number equals itself in another spelling", "yes yes"),
    *("n = :short", "n = :power"),
    before={"n": {"N": "1.50"}},
    short={"N": "1.5"},
    power={"N": "15E-1"},
)
condition_probe(
    *("IN, BETWEEN, begins_with, contains and size", "yes yes yes yes yes"),
    *("s IN (:x, :abc)", "n BETWEEN :one AND :three", "begins_with(s, :ab)"),
    "contains(#set, :one) AND contains(s, :ab)",
    "size(s) = :three AND size(#set) < n",
    before={"s": "abc", "n": 3, "set": {1, 2}},
    x="x",
    abc="abc",
    ab="ab",
    one=1,
    three=3,
)
condition_probe(
    *("NOT binds before AND, and AND before OR", "yes no yes"),
    "a = :one OR a = :two AND a = :two",
    "(a = :one OR a = :two) AND a = :two",
    "NOT a = :two AND NOT (a = :one AND a = :two)",
    before={"a": 1},
    one=1,
    two=2,
)
condition_probe(
    *("a boolean equals itself alone", "yes no no"),
    *("b = :true", "b = :false", "b = :one"),
    before={"b": True},
    true=True,
    false=False,
    one=1,
)
condition_probe(
    *("sets are equal whatever their order", "yes", "s = :s"),
    before={"s": {"NS": ["10", "9", "8"]}},
    s={"NS": ["8", "9", "10"]},
)
