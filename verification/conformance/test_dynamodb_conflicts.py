"""Two requests that meet on an item conflict as AWS documents; keys have a capacity."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from piecework_simulation.aws.conflicts import Conflicts
from piecework_simulation.aws.dynamodb import DynamoDB
from piecework_simulation.aws.throughput import (
    BURST_S,
    PARTITION_WRITES,
    TABLE_WRITES,
    Throughput,
)
from verification.conformance.dynamodb_batch_probes import insertion
from verification.conformance.items import expressed, key, row

LONGEST_S = 0.2


class Aws:
    """A table, with a clock that the test moves."""

    def __init__(self, seed: int = 1, **parts: Any) -> None:
        self.time, self.table = 0.0, "t"
        self.conflicts = Conflicts(lambda: self.time, Random(seed), LONGEST_S)
        parts = {"conflicts": self.conflicts} | parts
        self.model = DynamoDB(lambda: self.time, tables=["t"], **parts)

    def transact(self, *actions: Any, token: str = "") -> str:
        more = {"ClientRequestToken": token} if token else {}
        return self.ask("transact_write_items", TransactItems=actions, **more)

    def ask(self, operation: str, **request: Any) -> str:
        """Return `done`, or the code of the error with the reasons."""
        try:
            self.model.call(operation, request)
        except ClientError as error:
            reasons: Any = error.response.get("CancellationReasons", [])
            codes = [error.response["Error"]["Code"], *(r["Code"] for r in reasons)]
            return " ".join(codes)
        return "done"


def put(sk: str, condition: str = "") -> Any:
    return {"Put": {"TableName": "t", "Item": row(sk), **expressed("", condition)}}


def check(sk: str) -> Any:
    condition = expressed("", "attribute_not_exists(nothing)")
    return {"ConditionCheck": {"TableName": "t", "Key": key(sk), **condition}}


@pytest.mark.parametrize("held", [put, check])
def test_an_item_of_a_transaction_is_refused_to_others_while_it_lasts(
    held: Callable[[str], Any],
) -> None:
    aws = Aws()
    assert aws.transact(held("a")) == "done"
    refused = "TransactionConflictException"
    assert aws.ask("put_item", TableName="t", Item=row("a")) == refused
    update = expressed("SET n = :one", "", one=1)
    assert aws.ask("update_item", TableName="t", Key=key("a"), **update) == refused
    assert aws.ask("delete_item", TableName="t", Key=key("a")) == refused
    cancelled = "TransactionCanceledException TransactionConflict None"
    assert aws.transact(check("a"), put("b")) == cancelled
    # Neither a read nor a write of another item is.
    assert aws.ask("get_item", TableName="t", Key=key("a")) == "done"
    assert aws.ask("put_item", TableName="t", Item=row("c")) == "done"
    aws.time += LONGEST_S
    assert aws.transact(put("a")) == "done"


def test_a_statement_of_a_batch_conflicts_alone() -> None:
    aws = Aws()
    aws.transact(put("a"))
    made: Any = [insertion(aws, sk) for sk in "ab"]  # type: ignore[arg-type]
    reply = aws.model.call("batch_execute_statement", {"Statements": made})
    codes = [answer.get("Error", {}).get("Code") for answer in reply["Responses"]]
    assert codes == ["TransactionConflict", None]


def test_single_writes_never_conflict() -> None:
    aws = Aws()
    for _ in range(9):
        assert aws.ask("put_item", TableName="t", Item=row("a")) == "done"


def test_a_transaction_that_is_sent_again_while_it_lasts_is_in_progress() -> None:
    aws = Aws()
    assert aws.transact(put("a"), token="x") == "done"
    assert aws.transact(put("a"), token="x") == "TransactionInProgressException"
    aws.time += LONGEST_S
    assert aws.transact(put("a"), token="x") == "done"


def test_what_aws_leaves_open_is_drawn_both_ways() -> None:
    named, held = set(), set()
    for seed in range(40):
        aws = Aws(seed)
        aws.transact(put("a"))
        named.add(aws.transact(put("a"), put("b", "attribute_exists(pk)")))
        held.add(aws.ask("put_item", TableName="t", Item=row("b")))
    conflict = "TransactionCanceledException TransactionConflict"
    assert named == {f"{conflict} None", f"{conflict} ConditionalCheckFailed"}
    assert held == {"done", "TransactionConflictException"}


def throttled(seed: int, keys: int, seconds: float) -> float:
    """Return the writes a second that are accepted, of more than a table takes."""
    aws = Aws(seed, conflicts=None)
    limits = Throughput(lambda: aws.time, Random(seed))
    aws.model.throughput = limits
    tries = 2 * TABLE_WRITES
    accepted = 0
    for number in range(int(tries * seconds)):
        aws.time = number / tries
        item = {**row("a"), "pk": {"S": f"p{number % keys}"}}
        accepted += aws.ask("put_item", TableName="t", Item=item) == "done"
    return accepted / seconds


def test_a_key_and_a_new_table_have_the_documented_capacity() -> None:
    one = [throttled(seed, 1, 3.0) for seed in range(6)]
    assert min(one) == pytest.approx(4 / 3 * PARTITION_WRITES, rel=0.01)
    assert max(one) > 2 * PARTITION_WRITES  # unused capacity, of up to BURST_S
    assert BURST_S > 3.0
    many = throttled(1, 64, 3.0)
    assert many == pytest.approx(4 / 3 * TABLE_WRITES, rel=0.01)
