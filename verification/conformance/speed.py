"""Measure the CPU of the DynamoDB model, in microseconds per kind of call."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from botocore.exceptions import ClientError

from piecework.store.claims import CLAIM, OWNED, SET_OWNER
from piecework.store.table import Action
from piecework_simulation.aws.dynamodb import DynamoDB

CALLS = 10_000
PK = "T#tenant#J#job"
AT = "2030-01-01T00:00:00.000Z"
CHUNK = {"status": "PENDING", "gen": 1, "fence": 0, "attempts": 0, "stage": "first"}
FACTS = {"v": 1, "job": "job", "chunk": 1, "label": "x" * 20, "payload": "y" * 200}
TAKEN = {"running": "RUNNING", "token": "token", "gen": 1, "expires": AT, "one": 1}


def main() -> None:
    model = DynamoDB(lambda: 0.0, tables=["t"])
    query = {
        "TableName": "t",
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": PK}},
        "Limit": 100,
    }
    measure(model, "put", "put_item", put)
    measure(model, "claim", "update_item", claim)
    measure(model, "renewals", "update_item", beat)
    measure(model, "refused claim", "update_item", claim)
    measure(model, "get", "get_item", get)
    measure(model, "query of 100 items", "query", lambda _: query, calls=500)


def measure(
    model: DynamoDB,
    name: str,
    operation: str,
    request: Callable[[str], Mapping[str, Any]],
    *,
    calls: int = CALLS,
) -> None:
    requests: Iterable[Any] = [request(f"CHUNK#{n:06d}") for n in range(calls)]
    began = time.process_time()
    for sent in requests:
        with suppress(ClientError):
            model.call(operation, sent)
    spent = (time.process_time() - began) / calls * 1e6
    sys.stdout.write(f"{name}: {spent:.1f} us\n")


def put(sk: str) -> dict[str, Any]:
    return Action("Put", "t", PK, sk, item=CHUNK | FACTS).request()


def claim(sk: str) -> dict[str, Any]:
    compared = {"max_attempts": 5, "pending": "PENDING", "waiting": "WAITING"}
    times = {"now": AT, "dead_before": AT}
    facts = {"worker": "worker", "receive_count": 1, "zero": 0, "last": 0}
    return update(
        sk,
        CLAIM,
        f"{SET_OWNER} ADD fence :one, attempts :one REMOVE retry_at",
        TAKEN | compared | times | facts,
    )


def beat(sk: str) -> dict[str, Any]:
    change = "SET claim_expires_at = :expires, renewals = :one"
    condition = f"{OWNED} AND renewals = :zero"
    return update(sk, condition, change, TAKEN | {"fence": 1, "zero": 0})


def update(
    sk: str, condition: str, change: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    parts: Any = {"condition": condition, "update": change, "values": values}
    request = Action("Update", "t", PK, sk, **parts).request()
    return request | {"ReturnValues": "ALL_NEW"}


def get(sk: str) -> dict[str, Any]:
    key = {"pk": {"S": PK}, "sk": {"S": sk}}
    return {"TableName": "t", "Key": key, "ConsistentRead": True}


if __name__ == "__main__":
    main()
