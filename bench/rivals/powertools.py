"""The loop written by hand, with Powertools idempotency on DynamoDB.

`idempotent_function` wraps the function with the effect, as Powertools advises for
functions that are not Lambda handlers. It wraps the task, and in W2b each call, so that
a chunk tried again does not pay twice. The table has the key `id`, a time to live on
`expiration`, on-demand capacity. A context limits a run, so that the record of a dead
worker lapses. The limit is half of the visibility timeout, because a message may wait
in memory. A worker that meets a record in progress looks again a second later.
"""

from __future__ import annotations

from dataclasses import dataclass

import loop
import protocol
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
)


def setup(config: protocol.Config) -> None:
    """Make the queue and the table."""
    loop.setup(config)
    dynamodb = loop.opened("dynamodb", config)
    dynamodb.create_table(
        TableName=config.table,
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.get_waiter("table_exists").wait(TableName=config.table)
    dynamodb.update_time_to_live(
        TableName=config.table,
        TimeToLiveSpecification={"Enabled": True, "AttributeName": "expiration"},
    )


def work(config: protocol.Config) -> None:
    """Receive for ever; completed work is not repeated."""
    tasks = IdempotentTasks(config)
    perform = tasks.perform if config.workload == "W2b" else tasks.perform_once
    loop.Loop(config, perform, pause).run(tasks.ledger)


def teardown(config: protocol.Config) -> None:
    """Delete the queue and the table."""
    loop.teardown(config)
    loop.opened("dynamodb", config).delete_table(TableName=config.table)


class IdempotentTasks(protocol.Tasks):
    """Tasks, and the calls of W2b, that have their effect once."""

    def __init__(self, config: protocol.Config) -> None:
        super().__init__(config)
        once = {
            "persistence_store": DynamoDBPersistenceLayer(
                table_name=config.table,
                boto3_client=loop.opened("dynamodb", config),
            ),
            "config": IdempotencyConfig(
                lambda_context=Context(config.visibility_s * 1000 // 2)
            ),
        }
        self._task = idempotent_function(self._do, data_keyword_argument="task", **once)
        self._call = idempotent_function(
            self._ask, data_keyword_argument="call", **once
        )

    def perform_once(self, task: str) -> None:
        """Do a task that was not done before."""
        self._task(task=task)

    def call(self, chunk: int, number: int) -> str:
        """Make a call; in W2b, only if it was not made before."""
        if self.config.workload == "W2b":
            return str(self._call(call=[chunk, number]))
        return super().call(chunk, number)

    def _do(self, task: str) -> None:
        self.perform(task)

    def _ask(self, call: list[int]) -> str:
        return super().call(*call)


@dataclass(frozen=True)
class Context:
    """The part of a Lambda context that Powertools uses: the remaining time."""

    patience_ms: int

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds after which a run counts as dead."""
        return self.patience_ms


def pause(error: Exception) -> int:
    """Show a failed message again at once, one in other hands a second later."""
    return int(isinstance(error, IdempotencyAlreadyInProgressError))


if __name__ == "__main__":
    protocol.main(setup, loop.enqueue, work, teardown)
