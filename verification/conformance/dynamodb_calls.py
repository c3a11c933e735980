"""Random writes of DynamoDB, made so that most of them mean something.

They leave out where the embedded emulator is known to differ. It differs for updates
that only remove, and for numbers of more than 28 digits or with needless zeros. It
orders booleans its own way, and takes sums of values that are not numbers. So the
counter `c` is always a number.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from verification.conformance.items import wire

NAMES = ("n", "s", "q", "b")
SORT_KEYS = ("a", "a#1", "a#2", "b", "c")
RETURNS = ("NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW")

names = st.sampled_from(NAMES)
compared = st.sampled_from([*NAMES, "c"])
sort_keys = st.sampled_from(SORT_KEYS)
numbers = st.integers(-5, 12).map(lambda n: {"N": str(n)})
fractions = st.sampled_from([{"N": "1.5"}, {"N": "-0.25"}, {"N": "0.1"}])
texts = st.sampled_from(["a", "ab", "b", "10", "9"]).map(wire)
sets = st.sets(st.integers(0, 4), min_size=1, max_size=3).map(wire)
in_order = st.one_of(numbers, numbers, fractions, texts)
values = st.one_of(in_order, sets, st.booleans().map(wire))


low = st.integers(-5, 3).map(lambda n: {"N": str(n)})
high = st.integers(4, 12).map(lambda n: {"N": str(n)})

LEAVES = (
    "attribute_exists(pk)",
    "attribute_exists({name})",
    "attribute_not_exists({name})",
    "{name} = {any}",
    "{name} <> {any}",
    "{name} {order} {ordered}",
    "{name} IN ({any}, {other})",
    "begins_with({name}, {text})",
    "contains({name}, {any})",
    "size({name}) {order} {low}",
    "{name} BETWEEN {low} AND {high}",
)
VALUES_OF_LEAVES = {
    "any": values,
    "other": values,
    "ordered": in_order,
    "text": texts,
    "low": low,
    "high": high,
}


class Expression:
    """An expression as it grows, with the values that it names."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.values: dict[str, Any] = {}

    def value(self, strategy: st.SearchStrategy[Any]) -> str:
        """Name a value, and return its name."""
        name = f":v{len(self.values)}"
        self.values[name] = self.draw(strategy)
        return name

    def condition(self, depth: int = 2) -> str:
        """Return a condition; nested conditions are bracketed."""
        kinds = [*LEAVES] * 2 + ["NOT", "AND", "OR"] * min(depth, 1)
        kind = str(self.draw(st.sampled_from(kinds)))
        if kind == "NOT":
            return f"NOT {self.condition(0)}"
        if kind in {"AND", "OR"}:
            parts = [self.within(depth) for _ in range(self.draw(st.integers(2, 3)))]
            return f" {kind} ".join(parts)
        named = {
            "name": self.draw(compared),
            "order": self.draw(st.sampled_from(["<", "<=", ">", ">="])),
        }
        for part, strategy in VALUES_OF_LEAVES.items():
            if f"{{{part}}}" in kind:
                named[part] = self.value(strategy)
        return kind.format(**named)

    def within(self, depth: int) -> str:
        part = self.condition(depth - 1)
        return f"({part})" if " AND " in part or " OR " in part else part

    def update(self) -> str:
        """Return an update that sets something, each attribute once."""
        order = self.draw(st.permutations(NAMES))
        assignments = [f"{order[0]} = {self.right_side()}"]
        if self.draw(st.booleans()):
            assignments.append(f"c = {self.sum()}")
        sections = [f"SET {', '.join(assignments)}"]
        if self.draw(st.booleans()):
            sections.append(f"ADD {order[1]} {self.value(st.one_of(numbers, sets))}")
        if self.draw(st.booleans()):
            sections.append(f"REMOVE {order[2]}")
        if self.draw(st.booleans()):
            sections.append(f"DELETE {order[3]} {self.value(sets)}")
        return " ".join(sections)

    def right_side(self) -> str:
        name = str(self.draw(names))
        match self.draw(st.integers(0, 4)):
            case 0:
                return name
            case 1:
                return f"if_not_exists({name}, {self.value(values)})"
        return self.value(values)

    def sum(self) -> str:
        sign = self.draw(st.sampled_from("+-"))
        begin, step = self.value(numbers), self.value(st.one_of(numbers, fractions))
        return f"if_not_exists(c, {begin}) {sign} {step}"


@st.composite
def writes(draw: Any, kinds: tuple[str, ...] = ("Update", "Put", "Delete")) -> Any:
    """Draw a write: its kind, its sort key, and its request without table and key."""
    kind, expression = draw(st.sampled_from(kinds)), Expression(draw)
    request: dict[str, Any] = {}
    if kind == "Update":
        request["UpdateExpression"] = expression.update()
    if kind == "ConditionCheck" or draw(st.booleans()):
        request["ConditionExpression"] = expression.condition()
        asked = draw(st.sampled_from(["ALL_OLD", "NONE"]))
        request["ReturnValuesOnConditionCheckFailure"] = asked
    if expression.values:
        request["ExpressionAttributeValues"] = expression.values
    if kind == "Put":
        request["Item"] = draw(st.dictionaries(names, values, max_size=4))
    return kind, draw(sort_keys), request


@st.composite
def transactions(draw: Any) -> Any:
    """Draw the writes of a transaction; now and then two of one item."""
    kinds = ("Update", "Put", "Delete", "ConditionCheck")
    return draw(st.lists(writes(kinds), min_size=1, max_size=4))


@st.composite
def queries(draw: Any) -> Any:
    """Draw the part of a query that selects keys, limit and order."""
    text = st.sampled_from(["a", "a#", "a#1", "b", "d"]).map(wire)
    expression = Expression(draw)
    condition = "pk = :pk"
    match draw(st.integers(0, 3)):
        case 0:
            condition += f" AND begins_with(sk, {expression.value(text)})"
        case 1:
            first = expression.value(st.just({"S": "a#1"}))
            condition += f" AND sk BETWEEN {first} AND {expression.value(last)}"
        case 2:
            sign = draw(st.sampled_from(["=", "<", "<=", ">", ">="]))
            condition += f" AND sk {sign} {expression.value(text)}"
    request: dict[str, Any] = {
        "KeyConditionExpression": condition,
        "ExpressionAttributeValues": expression.values,
        "ScanIndexForward": draw(st.booleans()),
        "Select": draw(st.sampled_from(["ALL_ATTRIBUTES", "COUNT"])),
    }
    if draw(st.booleans()):
        request["Limit"] = draw(st.integers(1, 3))
    return request


last = st.sampled_from(["a#1", "a#2", "c"]).map(wire)
