"""Model the part of DynamoDB that Piecework uses, in memory, without latency.

The model is exact for what is used. It raises `NotImplementedError` for every other
operation, parameter and expression.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, TypeAlias

from botocore.exceptions import ClientError

from piecework_simulation.aws import reads, statements
from piecework_simulation.aws.conflicts import Conflicts
from piecework_simulation.aws.errors import (
    Calm,
    Chaos,
    InvalidError,
    cancelled,
    error,
    refused,
)
from piecework_simulation.aws.expiry import ATTRIBUTE, Expiry
from piecework_simulation.aws.partitions import Partition
from piecework_simulation.aws.throughput import Throughput
from piecework_simulation.aws.values import WireItem, item_size
from piecework_simulation.aws.writes import (
    Decided,
    RefusedError,
    Tokens,
    Write,
    check_number,
    conflict_reasons,
    decide_all,
    read_write,
)

Request: TypeAlias = Mapping[str, Any]
Reply: TypeAlias = dict[str, Any]

ONE = frozenset({"TableName", "Key", "ReturnValues"})
EXPRESSED = frozenset(
    {
        "ConditionExpression",
        "ExpressionAttributeNames",
        "ExpressionAttributeValues",
        "ReturnValuesOnConditionCheckFailure",
    }
)
READ = frozenset({"TableName", "ConsistentRead"})
PAGED = READ | {"Limit", "Select", "ExclusiveStartKey"}
#: The modelled parameters of each operation.
KNOWN: Mapping[str, frozenset[str]] = {
    "update_item": ONE | EXPRESSED | {"UpdateExpression"},
    "put_item": EXPRESSED | {"TableName", "Item", "ReturnValues"},
    "delete_item": ONE | EXPRESSED,
    "get_item": READ | {"Key"},
    "query": PAGED
    | {
        "KeyConditionExpression",
        "ExpressionAttributeNames",
        "ExpressionAttributeValues",
        "ScanIndexForward",
    },
    "scan": PAGED,
    "transact_write_items": frozenset({"TransactItems", "ClientRequestToken"}),
    "batch_execute_statement": frozenset({"Statements"}),
    "batch_write_item": frozenset({"RequestItems"}),
    "batch_get_item": frozenset({"RequestItems"}),
}
KINDS = {"update_item": "Update", "put_item": "Put", "delete_item": "Delete"}
ACTION = EXPRESSED | {"TableName", "Key"}
ACTIONS: Mapping[str, frozenset[str]] = {
    "Update": ACTION | {"UpdateExpression"},
    "Put": EXPRESSED | {"TableName", "Item"},
    "Delete": ACTION,
    "ConditionCheck": ACTION,
}


#: The codes of a statement of a batch, by those of the same write alone.
CODES_OF_STATEMENTS = {
    "ProvisionedThroughputExceededException": "ProvisionedThroughputExceeded",
    "ResourceNotFoundException": "ResourceNotFound",
    "ThrottlingException": "ThrottlingError",
    "TransactionConflictException": "TransactionConflict",
}
#: The bytes of items in a read unit, and the items of a batch of deletions.
READ_BYTES = 4096
REMOVALS = 25
#: The items of a batch of reads, and the bytes of its answer.
GETS, ANSWER_BYTES = 100, 16 * 1024**2


class Change(NamedTuple):
    """An item that was written: as it was, and as it is.

    Attributes:
        size: The larger of its sizes then and now, which a write is billed by.
    """

    table: str
    pk: str
    sk: str
    old: WireItem | None
    new: WireItem | None
    size: int = 0


def _nobody(_: Sequence[Change]) -> None:
    """Ignore a write."""


@dataclass(slots=True)
class DynamoDB:
    """Tables with the hash key `pk` and the range key `sk`, both strings.

    Attributes:
        conflicts: The transactions that last; None: each is over at once.
        expiry: The items with a time to live; None: they stay.
        throughput: The capacity that is left; None: there is no limit.
        on_write: Called after each applied request with all its changes.
        on_expired: Called with each item that its time to live has deleted.
    """

    now: Callable[[], float]
    tables: Iterable[str] = field(kw_only=True)
    chaos: Chaos = field(default_factory=Calm, kw_only=True)
    rng: Random | None = field(default=None, kw_only=True)
    page_items: int | None = field(default=None, kw_only=True)
    conflicts: Conflicts | None = field(default=None, kw_only=True)
    throughput: Throughput | None = field(default=None, kw_only=True)
    expiry: Expiry | None = field(default=None, kw_only=True)
    on_write: Callable[[Sequence[Change]], None] = field(default=_nobody, init=False)
    on_expired: Callable[[Change], None] = field(default=lambda _: None, init=False)
    _tables: dict[str, dict[str, Partition]] = field(init=False)
    _requests: int = field(default=0, init=False)
    _tokens: Tokens = field(default_factory=Tokens, init=False)
    _salt: bytes = field(default=b"", init=False)

    def __post_init__(self) -> None:
        self._tables = {name: {} for name in self.tables}
        if self.rng is not None:
            self._salt = self.rng.randbytes(8)

    def create_table(self, name: str) -> None:
        """Create an empty table; an existing one keeps its items."""
        self._tables.setdefault(name, {})

    def delete_table(self, name: str) -> None:
        """Delete a table and its items, if it exists."""
        self._tables.pop(name, None)

    def restore(self, table: str, pk: str, sk: str, item: WireItem) -> None:
        """Put back an item that the model has held; `on_write` is not told."""
        partitions = self._tables.setdefault(table, {})
        partition = partitions.setdefault(pk, Partition())
        partition.write(sk, item, item_size(item), self._requests)

    def call(self, operation: str, request: Request) -> Reply:
        """Execute a request, by the name of its aiobotocore method.

        Raises:
            ClientError: The error that AWS returns.
            NotImplementedError: The model does not cover the request.
        """
        known = KNOWN.get(operation)
        if known is None:
            raise NotImplementedError(f"DynamoDB's {operation}")
        _only(known, request)
        if self.conflicts is not None:
            self.conflicts.took_s = 0.0
        self._expire()
        try:
            return self._answer(operation, request)
        except InvalidError as wrong:
            raise error(operation, "ValidationException", str(wrong)) from None
        except RefusedError as wrong:
            raise refused(operation, wrong.item) from None

    @property
    def took_s(self) -> float:
        """The time of the last request, in seconds, after which its answer is sent."""
        return self.conflicts.took_s if self.conflicts is not None else 0.0

    def _answer(self, operation: str, request: Request) -> Reply:
        kind = KINDS.get(operation)
        if kind is not None:
            return self._write(operation, kind, request)
        if operation == "transact_write_items":
            return self._transact(request)
        if operation == "batch_execute_statement":
            return self._batch(request)
        if operation == "batch_write_item":
            return self._remove(request)
        if operation == "batch_get_item":
            return self._get_many(request)
        reply = self._read(operation, request)
        if self.throughput is not None:
            items = reply.get("Items") or [reply.get("Item", {})]
            units = max(1, -(-sum(map(item_size, items)) // READ_BYTES))
            pk = _partition_read(request)
            self.throughput.take_read(operation, request["TableName"], pk, units)
        return reply

    def _expire(self) -> None:
        """Delete the items whose time to live is over, some days late."""
        expiry, now = self.expiry, self.now()
        while expiry is not None and (found := expiry.due(now)) is not None:
            table, pk, sk, ends = found
            partition = self._tables.get(table, {}).get(pk)
            old = None if partition is None else partition.items.get(sk)
            if partition is None or old is None:
                continue
            if old.get(ATTRIBUTE, {}).get("N") == ends:
                self._requests += 1
                partition.write(sk, None, 0, self._requests)
                self.on_expired(Change(table, pk, sk, old, None))

    def _read(self, operation: str, request: Request) -> Reply:
        """Answer GetItem, Query or Scan."""
        partitions = self._table(operation, request)
        stale = not request.get("ConsistentRead", False) and (
            self.chaos.fires("dynamodb.stale")
        )
        if operation == "get_item":
            return reads.get(partitions, request, stale=stale)
        if operation == "query":
            return reads.query(partitions, request, self.page_items, stale=stale)
        order = sorted(partitions, key=self._place)
        return reads.scan(partitions, order, request, self.page_items, stale=stale)

    def _place(self, pk: str) -> bytes:
        """Return the position of a partition in a scan: arbitrary, but constant."""
        return hashlib.blake2b(pk.encode(), key=self._salt, digest_size=8).digest()

    def _table(self, operation: str, request: Request) -> dict[str, Partition]:
        found = self._tables.get(request["TableName"])
        if found is None:
            code, message = "ResourceNotFoundException", "Requested resource not found"
            raise error(operation, code, message)
        return found

    def _write(self, operation: str, kind: str, request: Request) -> Reply:
        """Answer UpdateItem, PutItem or DeleteItem."""
        self._table(operation, request)
        returning = request.get("ReturnValues", "NONE")
        if kind != "Update" and returning not in {"NONE", "ALL_OLD"}:
            raise InvalidError("ReturnValues can only be ALL_OLD or NONE")
        write = read_write(kind, request, self._tables)
        old, new, _ = self._write_one(operation, write)
        return _returned(returning, write, old, new)

    def _write_one(self, operation: str, write: Write) -> Decided:
        """Write one item, unless there is no capacity or a transaction holds it."""
        if self.throughput is not None:
            used = (write.table, write.pk, write.units)
            self.throughput.take_write(operation, *used)
        if self.conflicts is not None:
            self.conflicts.check(operation, write.place)
        decided = write.decide()
        self._apply([(write, decided)])
        return decided

    def _batch(self, request: Request) -> Reply:
        """Answer BatchExecuteStatement: each statement is a write of its own."""
        statements.check_number(request["Statements"])
        return {"Responses": [self._statement(s) for s in request["Statements"]]}

    def _statement(self, statement: Request) -> Reply:
        operation = "batch_execute_statement"
        table = statements.read_statement(statement["Statement"])[0]
        try:
            put = statements.read_insert(statement)
            self._table(operation, put)
            if self.chaos.fires("dynamodb.partial"):
                return _failed(table, "InternalServerError", "Internal error")
            self._write_one(operation, read_write("Put", put, self._tables))
        except RefusedError:
            message = "Duplicate primary key exists in table"
            return _failed(table, "DuplicateItem", message)
        except InvalidError as wrong:
            return _failed(table, "ValidationError", str(wrong))
        except ClientError as wrong:
            found = wrong.response["Error"]
            return _failed(table, CODES_OF_STATEMENTS[found["Code"]], found["Message"])
        return {"TableName": table}

    def _remove(self, request: Request) -> Reply:
        """Answer BatchWriteItem with deletions: each is a write of its own.

        What finds no capacity, or an item that a transaction holds, is not processed.
        """
        operation, left = "batch_write_item", {}
        check_removals(request["RequestItems"])
        for table, removals in request["RequestItems"].items():
            self._table(operation, {"TableName": table})
            keys = [removal["DeleteRequest"]["Key"] for removal in removals]
            if rest := [key for key in keys if not self._removed(table, key)]:
                left[table] = [{"DeleteRequest": {"Key": key}} for key in rest]
        return {"UnprocessedItems": left}

    def _removed(self, table: str, key: WireItem) -> bool:
        if self.chaos.fires("dynamodb.partial"):
            return False
        request = {"TableName": table, "Key": key}
        try:
            write = read_write("Delete", request, self._tables)
            self._write_one("batch_write_item", write)
        except ClientError:
            return False
        return True

    def _get_many(self, request: Request) -> Reply:
        """Answer BatchGetItem: each item is a read of its own.

        What finds no capacity, or no room in the answer, is not processed.
        """
        operation, found, left = "batch_get_item", dict[str, Any](), dict[str, Any]()
        check_gets(request["RequestItems"])
        size = 0
        for table, asked in request["RequestItems"].items():
            self._table(operation, {"TableName": table})
            found[table], rest = [], []
            for key in asked["Keys"]:
                one = {**asked, "TableName": table, "Key": key}
                del one["Keys"]
                item = self._got(one) if size <= ANSWER_BYTES else None
                if item is None:
                    rest.append(key)
                elif item:
                    size += item_size(item)
                    found[table].append(item)
            if rest:
                left[table] = {**asked, "Keys": rest}
        return {"Responses": found, "UnprocessedKeys": left}

    def _got(self, request: Request) -> WireItem | None:
        """Return an item of a batch; empty: there is none; None: it was not read."""
        if self.chaos.fires("dynamodb.partial"):
            return None
        item: WireItem = self._read("get_item", request).get("Item", {})
        if self.throughput is not None:
            units = max(1, -(-item_size(item) // READ_BYTES))
            place = request["TableName"], _partition_read(request)
            try:
                self.throughput.take_read("batch_get_item", *place, units)
            except ClientError:
                return None
        return item

    def _transact(self, request: Request) -> Reply:
        """Answer TransactWriteItems."""
        actions, token = request["TransactItems"], request.get("ClientRequestToken")
        check_number(actions)
        if token is not None:
            if self.conflicts is not None:
                self.conflicts.check_token(token)
            if self._tokens.is_again(token, actions, self.now()):
                return {}
        writes = [self._action(action) for action in actions]
        self._admit(writes, token)
        decided = decide_all(writes)
        if token is not None:
            self._tokens.keep(token, actions, self.now())
        self._apply(list(zip(writes, decided, strict=True)))
        return {}

    def _admit(self, writes: Sequence[Write], token: str | None) -> None:
        """Cancel a transaction without capacity, or whose items others hold."""
        if self.throughput is not None:
            reasons: list[Mapping[str, Any]] = []
            for write in writes:
                try:
                    used = (write.table, write.pk, 2 * write.units)
                    self.throughput.take_write("transact_write_items", *used)
                    reasons.append({"Code": "None"})
                except ClientError as wrong:
                    code = CODES_OF_STATEMENTS[wrong.response["Error"]["Code"]]
                    reasons.append({"Code": code})
            if any(reason["Code"] != "None" for reason in reasons):
                raise cancelled(reasons)
        conflicts = self.conflicts
        if conflicts is None:
            return
        if taken := conflicts.begin([write.place for write in writes], token):
            named = conflicts.names_conditions()
            raise cancelled(conflict_reasons(writes, taken, names_conditions=named))

    def _action(self, action: Request) -> Write:
        ((kind, request),) = action.items()
        if kind not in ACTIONS:
            raise NotImplementedError(f"the action {kind} in a transaction")
        _only(ACTIONS[kind], request)
        self._table("transact_write_items", request)
        return read_write(kind, request, self._tables)

    def _apply(self, decided: Sequence[tuple[Write, Decided]]) -> None:
        self._requests += 1
        changes = []
        for write, (old, new, size) in decided:
            if write.kind != "ConditionCheck":
                largest = max(size, write.partition.sizes.get(write.sk, 0))
                write.partition.write(write.sk, new, size, self._requests)
                place = (write.table, write.pk, write.sk)
                changes.append(Change(*place, old, new, largest))
                if self.expiry is not None:
                    self.expiry.note(*place, new)
        if changes:
            self.on_write(changes)


def check_removals(requests: Mapping[str, Sequence[Request]]) -> None:
    """Refuse what AWS refuses of a batch, and what is not modelled.

    Raises:
        InvalidError: It has no deletion, more than 25, or two of one item.
        NotImplementedError: It puts an item.
    """
    every = [(table, each) for table, some in requests.items() for each in some]
    if not 0 < len(every) <= REMOVALS:
        raise InvalidError("Too many items requested for the BatchWriteItem call")
    if any(each.keys() != {"DeleteRequest"} for _, each in every):
        raise NotImplementedError("a put in DynamoDB's batch_write_item")
    places = {(table, repr(each["DeleteRequest"]["Key"])) for table, each in every}
    if len(places) < len(every):
        raise InvalidError("Provided list of item keys contains duplicates")


def check_gets(requests: Mapping[str, Request]) -> None:
    """Refuse what AWS refuses of a batch of reads, and what is not modelled.

    Raises:
        InvalidError: It has no key, more than a hundred, or two of one item.
        NotImplementedError: It has another parameter.
    """
    for asked in requests.values():
        _only(frozenset({"Keys", "ConsistentRead"}), asked)
    places = [(t, repr(key)) for t, asked in requests.items() for key in asked["Keys"]]
    if not 0 < len(places) <= GETS:
        raise InvalidError("Too many items requested for the BatchGetItem call")
    if len(set(places)) < len(places):
        raise InvalidError("Provided list of item keys contains duplicates")


def _failed(table: str, code: str, message: str) -> Reply:
    """Return the answer to a statement that was not executed."""
    return {"TableName": table, "Error": {"Code": code, "Message": message}}


def _partition_read(request: Request) -> str:
    """Return the key of the partition that a request reads; empty: all, by a scan."""
    place = request.get("Key", {}).get("pk")
    values = request.get("ExpressionAttributeValues", {})
    return str((place or values.get(":pk", {})).get("S", ""))


def _only(known: frozenset[str], request: Request) -> None:
    """Raise if a request has a parameter that is not modelled."""
    if not request.keys() <= known:
        unknown = ", ".join(sorted(request.keys() - known))
        raise NotImplementedError(f"DynamoDB's {unknown}")


def _returned(
    returning: str, write: Write, old: WireItem | None, new: WireItem | None
) -> Reply:
    """Return the attributes that `ReturnValues` requests."""
    if returning == "NONE":
        return {}
    item = old if returning.endswith("OLD") else new
    if item is not None and returning.startswith("UPDATED"):
        item = {name: item[name] for name, _ in write.plan.touched if name in item}
    return {"Attributes": item.copy()} if item else {}
