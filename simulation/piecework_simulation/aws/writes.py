"""One write of a request, alone or in a transaction: decided first, then applied."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from piecework_simulation.aws.conflicts import CONFLICT, Place
from piecework_simulation.aws.errors import (
    NO_REASON,
    InvalidError,
    cancelled,
    condition_reason,
    error,
)
from piecework_simulation.aws.partitions import Partition
from piecework_simulation.aws.plans import Plan, prepare
from piecework_simulation.aws.values import (
    INVALID,
    WireItem,
    canonical_item,
    item_size,
    text_size,
    value_size,
)

#: A write as it is decided: the item as it is, as it will be, and its size then.
Decided: TypeAlias = tuple[WireItem | None, WireItem | None, int]

LARGEST_ITEM = 400 * 1024
#: The bytes of an item in a write unit.
WRITE_BYTES = 1024
LONGEST = {"pk": 2048, "sk": 1024}


class RefusedError(Exception):
    """A condition failed; `item` is the current item, if it was requested."""

    def __init__(self, item: WireItem | None) -> None:
        super().__init__()
        self.item = item


@dataclass(slots=True)
class Write:
    """A Put, Update, Delete or ConditionCheck of one item."""

    kind: str
    table: str
    partition: Partition
    pk: str
    sk: str
    plan: Plan
    values: WireItem
    put: WireItem | None
    shows_item: bool

    @property
    def place(self) -> Place:
        """The table and the key of the item."""
        return self.table, self.pk, self.sk

    @property
    def units(self) -> int:
        """The write units, by the item as it is or as it is put."""
        size = self.partition.sizes.get(self.sk, 0)
        if self.put is not None:
            size = max(size, item_size(self.put))
        return max(1, -(-size // WRITE_BYTES))

    def decide(self) -> Decided:
        """Return the item as it is, as it will be, and its size then.

        Raises:
            RefusedError: The condition does not hold.
            InvalidError: The update does not go with the item.
        """
        old = self.partition.items.get(self.sk)
        test = self.plan.test
        if test is not None and not test(old or {}, self.values):
            raise RefusedError(old if self.shows_item else None)
        match self.kind:
            case "Update":
                new, size = self._updated(old)
            case "Put":
                new, size = self.put, item_size(self.put or {})
            case "ConditionCheck":
                return old, old, 0
            case _:
                new, size = None, 0
        if size > LARGEST_ITEM:
            to_update = " to update" if self.kind == "Update" else ""
            raise InvalidError(
                f"Item size{to_update} has exceeded the maximum allowed size"
            )
        return old, new, size

    def _updated(self, old: WireItem | None) -> tuple[WireItem | None, int]:
        update = self.plan.update
        if old is None:
            if update is not None and update.only_takes_away:
                return None, 0
            old = {"pk": {"S": self.pk}, "sk": {"S": self.sk}}
            size = item_size(old)
        else:
            size = self.partition.sizes[self.sk]
        if update is None:
            return old, size
        new = update.apply(old, self.values)
        for name, bytes_of_name in self.plan.touched:
            before, after = old.get(name), new.get(name)
            if before is not None:
                size -= bytes_of_name + value_size(before)
            if after is not None:
                size += bytes_of_name + value_size(after)
        return new, size


def read_write(
    kind: str, request: Mapping[str, Any], tables: Mapping[str, dict[str, Partition]]
) -> Write:
    """Parse a write request.

    Raises:
        InvalidError: AWS refuses the request as invalid.
    """
    plan, values = prepare(request)
    put = canonical_item(request["Item"]) if kind == "Put" else None
    pk, sk = read_key(request["Key"], whole=True) if put is None else read_key(put)
    partitions = tables[request["TableName"]]
    partition = partitions.get(pk)
    if partition is None:
        partition = partitions[pk] = Partition()
    shows = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
    return Write(
        kind, request["TableName"], partition, pk, sk, plan, values, put, shows
    )


def read_key(
    item: Mapping[str, Mapping[str, Any]], *, whole: bool = False
) -> tuple[str, str]:
    """Return the key of an item; `whole` if nothing else may be in it."""
    try:
        pk, sk = item["pk"]["S"], item["sk"]["S"]
    except KeyError:
        raise _bad_key(item, whole=whole) from None
    if not pk or not sk:
        name = "sk" if pk else "pk"
        raise InvalidError(
            "One or more parameter values are not valid. The AttributeValue for a key"
            f" attribute cannot contain an empty string value. Key: {name}"
        )
    for name, text in (("pk", pk), ("sk", sk)):
        if len(text) * 4 > LONGEST[name] and text_size(text) > LONGEST[name]:
            kind = "hashkey" if name == "pk" else "rangekey"
            raise InvalidError(
                f"{INVALID}Size of {kind} has exceeded the maximum size limit of"
                f" {LONGEST[name]} bytes"
            )
    if whole and len(item) != len(LONGEST):
        raise _bad_key(item, whole=True)
    return pk, sk


def _bad_key(item: Mapping[str, Mapping[str, Any]], *, whole: bool) -> InvalidError:
    if whole:
        return InvalidError("The provided key element does not match the schema")
    for name in LONGEST:
        if name not in item:
            return InvalidError(f"{INVALID}MissingChunk the key {name} in the item")
    name = next(name for name in LONGEST if "S" not in item[name])
    (kind,) = item[name]
    return InvalidError(
        f"{INVALID}Type mismatch for key {name} expected: S actual: {kind}"
    )


# ── execute transactions ──────────────────────────────────────────────────────

TOKEN_S = 600.0
MOST_ACTIONS = 100
LARGEST = 4 * 1024 * 1024


def decide_all(writes: Sequence[Write]) -> list[Decided]:
    """Decide every action of a transaction; one that fails cancels all."""
    if len({(write.table, write.pk, write.sk) for write in writes}) < len(writes):
        raise InvalidError(
            "Transaction request cannot include multiple operations on one item"
        )
    decided: list[Decided] = []
    reasons: list[Mapping[str, Any]] = []
    for write in writes:
        try:
            decided.append(write.decide())
            reasons.append(NO_REASON)
        except RefusedError as wrong:
            reasons.append(condition_reason(wrong.item))
        except InvalidError as wrong:
            reasons.append({"Code": "ValidationError", "Message": str(wrong)})
    if len(decided) < len(writes):
        raise cancelled(reasons)
    if sum(size for _, _, size in decided) > LARGEST:
        raise InvalidError("Transaction is larger than 4 MB")
    return decided


def conflict_reasons(
    writes: Sequence[Write], taken: AbstractSet[int], *, names_conditions: bool
) -> list[Mapping[str, Any]]:
    """Return the reasons of a transaction, some of whose items are held by others."""
    reasons: list[Mapping[str, Any]] = []
    for position, write in enumerate(writes):
        reason: Mapping[str, Any] = CONFLICT if position in taken else NO_REASON
        if names_conditions and position not in taken:
            try:
                write.decide()
            except RefusedError as wrong:
                reason = condition_reason(wrong.item)
            except InvalidError as wrong:
                reason = {"Code": "ValidationError", "Message": str(wrong)}
        reasons.append(reason)
    return reasons


def check_number(actions: Sequence[Any]) -> None:
    """Raise if a transaction has no actions, or too many."""
    if not 0 < len(actions) <= MOST_ACTIONS:
        raise InvalidError(
            "1 validation error detected: Value at 'transactItems' failed to satisfy"
            " constraint: Member must have length less than or equal to 100, and"
            " greater than or equal to 1"
        )


@dataclass(slots=True)
class Tokens:
    """The tokens of the transactions that were applied in the last ten minutes."""

    _applied: dict[str, Any] = field(default_factory=dict)
    _ends: deque[tuple[float, str]] = field(default_factory=deque)

    def is_again(self, token: str, actions: Any, now: float) -> bool:
        """Return whether a transaction was applied before under the same token."""
        while self._ends and self._ends[0][0] <= now:
            del self._applied[self._ends.popleft()[1]]
        if token not in self._applied:
            return False
        if self._applied[token] != actions:
            raise error(
                "transact_write_items",
                "IdempotentParameterMismatchException",
                "ClientRequestToken has been used with a different request payload",
            )
        return True

    def keep(self, token: str, actions: Any, now: float) -> None:
        """Remember a transaction that is applied."""
        self._applied[token] = actions
        self._ends.append((now + TOKEN_S, token))
