"""DynamoDB's door: its JSON protocol, and the tables that come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from botocore.exceptions import ClientError

from bench import meter
from piecework_simulation.aws.conflicts import Conflicts
from piecework_simulation.aws.dynamodb import Change, DynamoDB
from piecework_simulation.aws.errors import error
from piecework_simulation.aws_server.http import (
    Answer,
    error_document,
    ok_answer,
    unknown_operation,
    written,
)
from piecework_simulation.aws_server.tables import OPERATIONS, read_request

Document = dict[str, Any]


class Tables:
    """The tables of an account."""

    def __init__(
        self,
        now: Callable[[], float],
        conflicts: Conflicts | None = None,
        model: DynamoDB | None = None,
    ) -> None:
        self._model = model or DynamoDB(now, tables=(), conflicts=conflicts)
        self._model.on_write = self._record_changes
        #: Seconds after which the answer to the last request is sent.
        self.took_s = 0.0
        self._described: dict[str, Document] = {}
        self._hash_only: dict[str, HashOnly] = {}
        self._units: dict[str, float] = {}
        self._others = {
            "CreateTable": self._create,
            "DescribeTable": self._describe,
            "DeleteTable": self._delete_table,
            "UpdateTimeToLive": self._expire,
        }

    def handle(self, action: str, body: bytes) -> Answer:
        """Answer a request."""
        request = read_request(body)
        self.took_s = 0.0
        try:
            if action in self._others:
                return ok_answer(self._others[action](request))
            if action not in OPERATIONS:
                return unknown_operation(action)
            return self._work(action, request)
        except ClientError as error:
            said = self._add_consumed_capacity(request, error_document(error))
            units = (
                meter.refused_write_units(body, said) if action in meter.WRITES else 0
            )
            return Answer(HTTPStatus.BAD_REQUEST, written(said).encode(), units=units)
        except NotImplementedError as why:
            return unknown_operation(why)

    def _work(self, action: str, request: Document) -> Answer:
        """Have the model do it."""
        self._units = {}
        wants_capacity = request.pop("ReturnConsumedCapacity", "NONE") != "NONE"
        other = self._hash_only.get(request.get("TableName", ""))
        asked = request if other is None else other.hash_only_request(request)
        try:
            found = self._model.call(OPERATIONS[action], asked)
        finally:
            self.took_s = self._model.took_s
        reply = self._add_consumed_capacity(request, found)
        together = action in {"TransactWriteItems", "BatchGetItem"}
        if action in meter.READS:
            table = request.get("TableName") or next(iter(request["RequestItems"]))
            self._units[table] = meter.read_units(request, reply)
        elif action == "TransactWriteItems":
            self._retry(request["TransactItems"])
        elif action == "BatchExecuteStatement":
            for answer in reply["Responses"]:
                if answer.get("Error", {}).get("Code") == "DuplicateItem":
                    self._use(answer["TableName"], 1)
        if wants_capacity:
            rows = [
                consumed_units(*row, together=together) for row in self._units.items()
            ]
            reply["ConsumedCapacity"] = rows if together else rows[0]
        return ok_answer(reply, sum(self._units.values()))

    def _add_consumed_capacity(self, request: Document, reply: Document) -> Document:
        """Return what the model says in the words of the table."""
        other = self._hash_only.get(request.get("TableName", ""))
        return reply if other is None else other.full_reply(reply)

    def _record_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._use(change.table, meter.write_units(change.size))

    def _retry(self, actions: Sequence[Document]) -> None:
        """Count what a transaction only looked at, and all of it twice."""
        for action in actions:
            if check := action.get("ConditionCheck"):
                place = {name: check[name] for name in ("TableName", "Key")}
                item = self._model.call("get_item", place).get("Item", {})
                self._use(check["TableName"], meter.write_units(meter.size(item)))
        twice = meter.units.TRANSACTION
        self._units = {table: used * twice for table, used in self._units.items()}

    def _use(self, table: str, units: float) -> None:
        self._units[table] = self._units.get(table, 0) + units

    def _create(self, request: Document) -> Document:
        name = request["TableName"]
        if name in self._described:
            code, message = "ResourceInUseException", f"Table already exists: {name}"
            raise error("create_table", code, message)
        names = [key["AttributeName"] for key in request["KeySchema"]]
        if len(names) == 1:
            self._hash_only[name] = HashOnly(names[0])
        elif names != ["pk", "sk"]:
            raise NotImplementedError(f"the keys {names}")
        self._model.create_table(name)
        response_headers = ("TableName", "KeySchema", "AttributeDefinitions")
        self._described[name] = {
            **{part: request[part] for part in response_headers},
            "TableStatus": "ACTIVE",
            "TableArn": f"arn:aws:dynamodb:us-east-1:000000000000:table/{name}",
        }
        return {"TableDescription": self._described[name]}

    def _describe(self, request: Document) -> Document:
        return {"Table": self._require_table("describe_table", request)}

    def _delete_table(self, request: Document) -> Document:
        gone = self._require_table("delete_table", request)
        name = request["TableName"]
        self._model.delete_table(name)
        self._hash_only.pop(name, None)
        del self._described[name]
        return {"TableDescription": {**gone, "TableStatus": "DELETING"}}

    def _expire(self, request: Document) -> Document:
        """Accept a TTL setting; the work does not depend on expiry."""
        self._require_table("update_time_to_live", request)
        return {"TimeToLiveSpecification": request["TimeToLiveSpecification"]}

    def _require_table(self, operation: str, request: Mapping[str, Any]) -> Document:
        described = self._described.get(request["TableName"])
        if described is None:
            code = "ResourceNotFoundException"
            message = f"Requested resource not found: Table: {request['TableName']}"
            raise error(operation, code, message)
        return described


def consumed_units(table: str, units: float, *, together: bool) -> Document:
    """Return the consumed capacity in the reply's form."""
    consumed = {"TableName": table, "CapacityUnits": units}
    return {**consumed, "WriteCapacityUnits": units} if together else consumed


# ── table without a sort key ──────────────────────────────────────────────────
#
# Its key is called `pk` there, and every item has the same `sk`. So an item has three
# bytes more than on AWS: too few to be seen in units of 1 KB.

SK = {"S": "-"}


@dataclass(frozen=True, slots=True)
class HashOnly:
    """A table's key attribute."""

    name: str

    def hash_only_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request to read or write one item in the model's words."""
        if "KeyConditionExpression" in request:
            raise NotImplementedError("a query of a table without a sort key")
        changed = dict(request)
        for part in ("Key", "Item"):
            if part in request:
                rest = dict(request[part])
                changed[part] = {"pk": rest.pop(self.name), "sk": SK, **rest}
        if names := request.get("ExpressionAttributeNames"):
            key = self.name
            changed["ExpressionAttributeNames"] = {
                mark: "pk" if name == key else name for mark, name in names.items()
            }
        return changed

    def full_reply(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        """Return an answer in the words of the table."""
        changed = dict(reply)
        for part in ("Item", "Attributes"):
            if part in reply:
                rest = dict(reply[part])
                key = {self.name: rest.pop("pk")} if "pk" in rest else {}
                rest.pop("sk", None)
                changed[part] = {**key, **rest}
        return changed
