"""Compare random calls on the model and on a server."""

from __future__ import annotations

from itertools import count
from typing import Any

from botocore.exceptions import ClientError
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from piecework_simulation.aws.dynamodb import DynamoDB
from verification.conformance.dynamodb_calls import (
    RETURNS,
    queries,
    sort_keys,
    transactions,
    writes,
)
from verification.conformance.models import NOW
from verification.conformance.subject import fresh

OPERATIONS = {"Update": "update_item", "Put": "put_item", "Delete": "delete_item"}
STEPS = 15


def compare(client: Any, examples: int, *, derandomize: bool = True) -> int:
    """Make random calls on the model and through a client; return how many were made.

    Raises:
        AssertionError: An answer is not the same.
    """
    table = fresh("random")
    names = {"pk": "HASH", "sk": "RANGE"}
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in names
        ],
        KeySchema=[{"AttributeName": n, "KeyType": kind} for n, kind in names.items()],
    )
    client.get_waiter("table_exists").wait(TableName=table)
    calls, partitions = count(), count()

    class Machine(Twins):
        def __init__(self) -> None:
            super().__init__(client, table, f"partition-{next(partitions)}", calls)

    asked = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=derandomize,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(Machine, settings=asked)
    finally:
        client.delete_table(TableName=table)
    return next(calls)


class Twins(RuleBasedStateMachine):
    """One partition on the model and on the server."""

    def __init__(self, client: Any, table: str, pk: str, calls: count[int]) -> None:
        super().__init__()
        self.client, self.table, self.pk, self.calls = client, table, pk, calls
        self.model = DynamoDB(lambda: NOW, tables=[table])
        self.sent: list[dict[str, Any]] = []

    def key(self, sk: str) -> dict[str, Any]:
        return {"pk": {"S": self.pk}, "sk": {"S": sk}}

    def request(self, kind: str, sk: str, parts: dict[str, Any]) -> dict[str, Any]:
        """Return a write's request, on this machine's table and partition."""
        if kind == "Put":
            place = {"Item": self.key(sk) | parts["Item"]}
        else:
            place = {"Key": self.key(sk)}
        return {"TableName": self.table} | parts | place

    def both(self, operation: str, request: dict[str, Any]) -> None:
        """Call both, and compare the answers."""
        next(self.calls)
        theirs = said(lambda: getattr(self.client, operation)(**request))
        ours = said(lambda: self.model.call(operation, request))
        assert theirs == ours, f"{operation} {request}"

    @rule(write=writes(), returning=st.sampled_from(RETURNS))
    def write(self, write: Any, returning: str) -> None:
        kind, sk, parts = write
        request = self.request(kind, sk, parts) | {"ReturnValues": returning}
        self.both(OPERATIONS[kind], request)

    @rule(actions=transactions(), token=st.booleans())
    def transact(self, actions: Any, token: bool) -> None:  # noqa: FBT001
        items = [{kind: self.request(kind, sk, p)} for kind, sk, p in actions]
        request: dict[str, Any] = {"TransactItems": items}
        if token:
            request["ClientRequestToken"] = fresh("token")[-30:]
            self.sent.append(request)
        self.both("transact_write_items", request)

    @rule(again=st.randoms(use_true_random=False), other=st.booleans())
    def repeat(self, again: Any, other: bool) -> None:  # noqa: FBT001
        """Repeat a transaction, or send another one with its token."""
        if not self.sent:
            return
        request = again.choice(self.sent)
        if other:
            items = again.choice(self.sent)["TransactItems"]
            request = request | {"TransactItems": items}
        self.both("transact_write_items", request)

    @rule(sk=sort_keys)
    def get(self, sk: str) -> None:
        request = {"TableName": self.table, "Key": self.key(sk), "ConsistentRead": True}
        self.both("get_item", request)

    @rule(query=queries())
    def query(self, query: Any) -> None:
        values = query["ExpressionAttributeValues"] | {":pk": {"S": self.pk}}
        request = query | {
            "TableName": self.table,
            "ExpressionAttributeValues": values,
            "ConsistentRead": True,
        }
        self.both("query", request)

    @invariant()
    def items_are_the_same(self) -> None:
        request = {
            "TableName": self.table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": self.pk}},
            "ConsistentRead": True,
        }
        self.both("query", request)


def said(call: Any) -> Any:
    """Return an answer in a form that can be compared: no words, sets in order."""
    try:
        reply = call()
    except ClientError as error:
        response: Any = error.response
        told = {k: response[k] for k in ("Item",) if response.get(k)}
        reasons = [
            {part: reason[part] for part in ("Code", "Item") if reason.get(part)}
            for reason in response.get("CancellationReasons", [])
        ]
        return settled({"error": response["Error"]["Code"], **told, "why": reasons})
    return settled({k: v for k, v in reply.items() if k != "ResponseMetadata"})


def settled(found: Any) -> Any:
    """Return an answer with its sets in order, and empty parts left out."""
    match found:
        case {"NS": list(members), **rest} if not rest:
            return {"NS": sorted(members)}
        case dict():
            return {k: settled(v) for k, v in found.items() if v or k in {"S", "BOOL"}}
        case list():
            return [settled(part) for part in found]
    return found
