"""One table behind a few verbs; the only file that spells DynamoDB requests.

Every write carries a condition. A condition that does not hold is an answer, not an
error: `Refused`, with the current item.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from botocore.exceptions import ClientError

from piecework.aws.endpoint import ServiceClock
from piecework.aws.errors import part_of, reaching
from piecework.domain.schema import SCHEMA, require_known
from piecework.errors import StoreError
from piecework.store.serialization import from_item, marked_names, to_item, to_value
from piecework.store.turns import Turns

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb.client import DynamoDBClient

Item: TypeAlias = dict[str, Any]

#: Seconds for which a write that meets another one is sent again. A conflict lasts some
#: hundredths of a second. Only a defect, or a table without capacity, lasts longer.
CONTENTION_S = 30.0
#: The longest wait between two tries, in seconds; the first ones are much shorter.
CONTENTION_CAP_S = 1.0
#: The same for a single write of an item that a transaction holds. A chunk may have one
#: transaction after another, and the renewal of its lease needs a gap between two.
HELD = "TransactionConflictException"
HELD_CAP_S = 0.1
#: Statements that DynamoDB accepts in a batch, and writes of a plain batch.
INSERTS_AT_ONCE = 25
REMOVALS_AT_ONCE = 25
#: Items of a batch of reads.
GETS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Written:
    """The condition held; `item` is what the write was asked to return."""

    item: Item


@dataclass(frozen=True, slots=True)
class Refused:
    """A condition did not hold.

    Attributes:
        item: The current item; None: it does not exist.
        refused: The positions in a transaction that were, each with its item.
    """

    item: Item | None
    refused: Mapping[int, Item | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemWrite:
    """A write, or the check of a condition, alone or in a transaction."""

    kind: str  # Put, Update, Delete or ConditionCheck
    table: str
    pk: str
    sk: str
    condition: str = ""
    update: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    item: Mapping[str, Any] | None = None

    def request(self) -> dict[str, Any]:
        """Return the write as DynamoDB wants it."""
        request: dict[str, Any] = {"TableName": self.table}
        if self.item is None:
            request["Key"] = {"pk": {"S": self.pk}, "sk": {"S": self.sk}}
        else:
            named = {"pk": self.pk, "sk": self.sk, "v": SCHEMA}
            request["Item"] = to_item({**named, **self.item})
        if self.update:
            request["UpdateExpression"] = self.update
        if self.condition:
            request["ConditionExpression"] = self.condition
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        marked = marked_names(self.update, self.condition)
        if marked:
            request["ExpressionAttributeNames"] = dict(marked)
        if self.values:
            request["ExpressionAttributeValues"] = {
                ":" + name: {"S": value} if isinstance(value, str) else to_value(value)
                for name, value in self.values.items()
            }
        return request

    def insertion(self) -> dict[str, Any]:
        """Return the write of a new item as a statement of a batch."""
        item = self.request()["Item"]
        return {
            "Statement": insert_statement(self.table, tuple(item)),
            "Parameters": list(item.values()),
        }


@lru_cache(maxsize=256)
def insert_statement(table: str, names: tuple[str, ...]) -> str:
    """Return the statement that creates an item; its values are parameters."""
    values = ", ".join(f"'{name}': ?" for name in names)
    return f'INSERT INTO "{table}" VALUE {{{values}}}'


@dataclass(slots=True)
class Table:
    """A DynamoDB table with the keys `pk` and `sk`.

    Attributes:
        clock: Gets the times of the answers.
        turns: The transactions in progress.
    """

    client: DynamoDBClient
    name: str
    rng: Random
    clock: ServiceClock | None = field(default=None, kw_only=True)
    turns: Turns = field(default_factory=Turns, init=False)

    def item_write(self, kind: str, pk: str, sk: str, **parts: Any) -> ItemWrite:
        """Return a write of an item of this table, or the check of a condition."""
        return ItemWrite(kind, self.name, pk, sk, **parts)

    async def update(
        self, write: ItemWrite, returning: str = "ALL_NEW"
    ) -> Written | Refused:
        """Change one item on its condition."""
        request = write.request() | {"ReturnValues": returning}
        reply = await self._persist(self.client.update_item, request)
        if isinstance(reply, Refused):
            return reply
        return Written(from_item(part_of(reply, "Attributes", dict, {})))

    async def put(self, write: ItemWrite) -> Written | Refused:
        """Put one item on its condition."""
        reply = await self._persist(self.client.put_item, write.request())
        return reply if isinstance(reply, Refused) else Written({})

    async def delete(self, write: ItemWrite) -> Written | Refused:
        """Delete one item on its condition; an item that is gone is deleted."""
        reply = await self._persist(self.client.delete_item, write.request())
        gone = isinstance(reply, Refused) and reply.item is None
        return Written({}) if gone or not isinstance(reply, Refused) else reply

    async def insert(self, items: Sequence[ItemWrite]) -> set[int]:
        """Create up to 25 items; return the positions of those that existed.

        Each is a write of its own, of one unit a KB: it conflicts with no other item.
        An item that exists stays as it is.
        """
        existing: set[int] = set()
        todo, waits = dict(enumerate(items)), None
        with reaching(self.name):
            while todo:
                answers = await self._insert_once(list(todo.values()))
                errors = dict(zip(todo, answers, strict=True))
                existing |= {at for at, (code, _) in errors.items() if code == EXISTS}
                later = [at for at, (code, _) in errors.items() if code in CONTENTION]
                wrong = [at for at, (code, _) in errors.items() if code not in DECIDED]
                if not wrong:
                    break
                waits = waits or Waits(self.rng)
                if wrong != later or not await waits.wait():
                    first = next((at for at in wrong if at not in later), wrong[0])
                    raise statement_error(*errors[first])
                todo = {at: todo[at] for at in later}
        return existing

    async def _insert_once(self, items: list[ItemWrite]) -> list[tuple[str, str]]:
        """Send a batch; return the code and the text of each item's error."""
        statements = [item.insertion() for item in items]
        send = self.client.batch_execute_statement
        reply = await self._persist(send, {"Statements": statements})
        answers = part_of(reply, "Responses", list)
        if len(answers) != len(items):
            message = "An answer of AWS has not one part for each item: it was cut."
            raise StoreError(message, code="aws.service.unavailable")
        errors = [answer.get("Error", {}) for answer in answers]
        return [(error.get("Code", ""), error.get("Message", "")) for error in errors]

    async def remove(self, places: Sequence[tuple[str, str]]) -> None:
        """Delete up to 25 items by their keys, each alone; one that is gone is deleted.

        What DynamoDB leaves, for lack of capacity or as a transaction holds it, is sent
        again.
        """
        todo: Any = [
            {"DeleteRequest": {"Key": {"pk": {"S": pk}, "sk": {"S": sk}}}}
            for pk, sk in places
        ]
        waits = None
        while todo:
            request = {"RequestItems": {self.name: todo}}
            reply = await self._persist(self.client.batch_write_item, request)
            todo = part_of(reply, "UnprocessedItems", dict, {}).get(self.name, [])
            waits = waits or Waits(self.rng)
            if todo and not await waits.wait():
                message = f"DynamoDB did not delete {len(todo)} rows for a long time."
                raise StoreError(message, code="aws.service.unavailable")

    async def transact(self, writes: Sequence[ItemWrite]) -> Written | Refused:
        """Write up to 100 items, of any table, all or none."""
        request = {
            "TransactItems": [{write.kind: write.request()} for write in writes],
            "ClientRequestToken": f"{self.rng.getrandbits(128):032x}",
        }
        async with self.turns.at((w.table, w.pk, w.sk) for w in writes):
            reply = await self._persist(self.client.transact_write_items, request)
        return reply if isinstance(reply, Refused) else Written({})

    async def _persist(self, send: Any, request: Mapping[str, Any]) -> Any:
        """Send a write until it is decided; contention is not a decision."""
        waits = None
        with reaching(self.name):
            while True:
                try:
                    return await self._send(send, request)
                except ClientError as error:
                    refusal = read_refusal(error)
                    if refusal is not None:
                        return refusal
                    waits = waits or Waits(self.rng)
                    held = error.response["Error"]["Code"] == HELD
                    longest_s = HELD_CAP_S if held else CONTENTION_CAP_S
                    if not contended(error) or not await waits.wait(longest_s):
                        raise

    async def _send(self, send: Any, request: Mapping[str, Any]) -> Any:
        """Send a request; at times compare the clock with the date of its answer."""
        clock = self.clock
        if clock is None or not clock.due():
            return await send(**request)
        asked = clock.local()
        reply = await send(**request)
        clock.observe(asked, reply)
        return reply

    async def get(self, pk: str, sk: str, *, any_version: bool = False) -> Item | None:
        """Read one item, strongly consistent.

        Raises:
            SchemaTooNewError: The item is newer, and not `any_version` will do.
        """
        with reaching(self.name):
            request = {
                "TableName": self.name,
                "Key": {"pk": {"S": pk}, "sk": {"S": sk}},
                "ConsistentRead": True,
            }
            reply = await self._send(self.client.get_item, request)
        if "Item" not in reply:
            return None
        item = part_of(reply, "Item", dict)
        return from_item(item) if any_version else require_known(from_item(item))

    async def get_many(
        self, places: Iterable[tuple[str, str]], *, any_version: bool = False
    ) -> dict[tuple[str, str], Item]:
        """Read items by their keys, a hundred a request; those that exist are returned.

        Each is a consistent read of its own. What DynamoDB leaves, for lack of capacity
        or as the answer would be too large, is asked again.

        Raises:
            SchemaTooNewError: An item is newer, and not `any_version` will do.
        """
        found: dict[tuple[str, str], Item] = {}
        left = list(dict.fromkeys(places))
        waits = None
        while left:
            keys = [
                {"pk": {"S": pk}, "sk": {"S": sk}} for pk, sk in left[:GETS_AT_ONCE]
            ]
            asked = {self.name: {"Keys": keys, "ConsistentRead": True}}
            with reaching(self.name):
                send = self.client.batch_get_item
                reply = await self._send(send, {"RequestItems": asked})
            items = part_of(part_of(reply, "Responses", dict), self.name, list, [])
            for item in map(from_item, items):
                known = item if any_version else require_known(item)
                found[item["pk"], item["sk"]] = known
            rest = part_of(reply, "UnprocessedKeys", dict, {}).get(self.name, {})
            again = [(key["pk"]["S"], key["sk"]["S"]) for key in rest.get("Keys", [])]
            left = again + left[GETS_AT_ONCE:]
            waits = waits or Waits(self.rng)
            if again and not await waits.wait():
                message = f"DynamoDB did not read {len(again)} rows for a long time."
                raise StoreError(message, code="aws.service.unavailable")
        return found

    async def query(
        self,
        pk: str,
        prefix: str = "",
        *,
        backwards: bool = False,
        any_version: bool = False,
    ) -> AsyncIterator[Item]:
        """Yield a partition's items, all pages; newer ones if `any_version` will do."""
        request = self._in_partition(pk, prefix) | {"ScanIndexForward": not backwards}
        async for page in self._pages(self.client.query, request):
            for item in map(from_item, part_of(page, "Items", list)):
                yield item if any_version else require_known(item)

    async def first(
        self,
        pk: str,
        count: int,
        *,
        prefix: str = "",
        last: str = "",
        backwards: bool = False,
    ) -> list[Item]:
        """Return the first items of a partition, or the last; mostly one small page.

        With `last`, only those with a sort key from `prefix` up to `last`.
        """
        request = self._in_partition(pk, prefix)
        if last:
            request["KeyConditionExpression"] = (
                "pk = :pk AND sk BETWEEN :prefix AND :last"
            )
            request["ExpressionAttributeValues"][":last"] = {"S": last}
        request |= {"ScanIndexForward": not backwards, "Limit": count}
        found: list[Item] = []
        async for page in self._pages(self.client.query, request):
            found += map(from_item, part_of(page, "Items", list))
            if len(found) >= count:
                break
        return found[:count]

    async def count(self, pk: str, prefix: str) -> int:
        """Count the items of a partition whose sort key begins so."""
        request = self._in_partition(pk, prefix) | {"Select": "COUNT"}
        pages = self._pages(self.client.query, request)
        return sum([part_of(page, "Count", int) async for page in pages])

    async def scan(self) -> AsyncIterator[Item]:
        """Yield every item of the table; for operators' views of a small table."""
        async for page in self._pages(self.client.scan, {"TableName": self.name}):
            for item in part_of(page, "Items", list):
                yield from_item(item)

    def _in_partition(self, pk: str, prefix: str) -> dict[str, Any]:
        condition = "pk = :pk" + (" AND begins_with(sk, :prefix)" if prefix else "")
        values = {":pk": {"S": pk}} | ({":prefix": {"S": prefix}} if prefix else {})
        return {
            "TableName": self.name,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values,
        }

    async def _pages(self, read: Any, request: dict[str, Any]) -> AsyncIterator[Any]:
        """Yield the pages of a strongly consistent read."""
        request = request | {"ConsistentRead": True}
        while True:
            with reaching(self.name):
                page = await read(**request)
            yield page
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def read_refusal(error: ClientError) -> Refused | None:
    """Return what a failed condition says; None for any other error.

    The reasons of a cancelled transaction are read one by one. A single failed
    condition makes it a refusal, whatever else was contended.
    """
    code = error.response["Error"]["Code"]
    if code == "ConditionalCheckFailedException":
        item: Any = error.response.get("Item")
        return Refused(from_item(item) if item else None)
    refused = {
        position: from_item(reason["Item"]) if reason.get("Item") else None
        for position, reason in enumerate(reasons(error))
        if reason.get("Code") == "ConditionalCheckFailed"
    }
    if not refused:
        return None
    return Refused(refused[min(refused)], refused)


# ── contention of writes ──────────────────────────────────────────────────────

#: Answers that say "not now" rather than "no": the same write is sent again. A
#: transaction is sent with its own token, so that it cannot be applied twice.
CONTENTION = {
    "TransactionConflict",
    "TransactionConflictException",
    "TransactionInProgressException",
    "ThrottlingError",
    "ThrottlingException",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "InternalServerError",
}
#: The answer to a statement whose item exists, and all that need no further try.
EXISTS = "DuplicateItem"
DECIDED = {"", EXISTS}


@dataclass(slots=True)
class Waits:
    """The waits of a write that meets others: short at first, and never in step."""

    rng: Random
    _tries: int = 0
    _began: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    async def wait(self, longest_s: float = CONTENTION_CAP_S) -> bool:
        """Wait a moment before the next try; False: the contention lasts too long."""
        if asyncio.get_running_loop().time() - self._began >= CONTENTION_S:
            return False
        cap = min(longest_s, 0.02 * 2.0 ** min(self._tries, 16))
        self._tries += 1
        await asyncio.sleep(self.rng.uniform(0, cap))
        return True


def statement_error(code: str, message: str) -> ClientError:
    """Return the error of a statement as that of the request it stands for."""
    response: Any = {"Error": {"Code": code, "Message": message}}
    return ClientError(response, "BatchExecuteStatement")


def contended(error: ClientError) -> bool:
    """Return whether the write collided with another one and may be sent again."""
    codes = {reason.get("Code", "None") for reason in reasons(error)} - {"None"}
    if codes:
        return codes <= CONTENTION
    return error.response["Error"]["Code"] in CONTENTION


def reasons(error: ClientError) -> list[dict[str, Any]]:
    """Return the reason of each write of a cancelled transaction."""
    found: Any = error.response.get("CancellationReasons", [])
    return list(found)
