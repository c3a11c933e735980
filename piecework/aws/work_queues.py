"""The work queues of a deployment: the default one, and those that pipelines declare.

A queue is named as its pipeline declares it; the default one is ``. Each is opened when
it is first used. So a process that uses no further queue sends no request for one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from piecework.aws.errors import reaching
from piecework.aws.queue import Delivery, Message, Queue, Receipt
from piecework.errors import StoreError

if TYPE_CHECKING:
    from types_aiobotocore_sqs.client import SQSClient

NOT_DEPLOYED = "aws.queue.not_deployed"


@dataclass(slots=True)
class WorkQueues:
    """The queues that workers receive from.

    Attributes:
        full_name: Returns the name of a pipeline's queue in SQS.
    """

    default: Queue
    full_name: Callable[[str], str]
    _open: dict[str, Queue] = field(init=False)

    def __post_init__(self) -> None:
        """Know the default queue, which each deployment has."""
        self._open = {"": self.default}

    async def named(self, queue: str) -> Queue:
        """Return a queue, opened with one request when it is first used.

        Raises:
            StoreError: `aws.queue.not_deployed`.
        """
        if queue not in self._open:
            client, name = self.default.client, self.full_name(queue)
            url = await self._url(client, name, queue)
            self._open[queue] = Queue(client, url, self.default.rng, queue)
        return self._open[queue]

    async def _url(self, client: SQSClient, name: str, queue: str) -> str:
        try:
            with reaching(name):
                return str((await client.get_queue_url(QueueName=name))["QueueUrl"])
        except StoreError as error:
            if error.code != "aws.resource.not_found":
                raise
            raise StoreError(
                f"The queue {name} is not deployed.",
                code=NOT_DEPLOYED,
                next_step=f"Create it: `piecework up --queue {queue}`, or on AWS "
                f"`piecework infra deploy --parameter Queue1={queue}`.",
            ) from error

    async def send(
        self, messages: Sequence[Message], *, to: str, delay_s: float = 0.0
    ) -> int:
        """Send messages to the queue of their job; return how many SQS accepted."""
        return await (await self.named(to)).send(messages, delay_s=delay_s)

    async def receive(
        self, most: int, *, of: str, wait_s: int, hide_s: float
    ) -> list[Delivery]:
        """Receive up to `most` messages of a queue, and hide them for `hide_s`."""
        return await (await self.named(of)).receive(most, wait_s=wait_s, hide_s=hide_s)

    async def hide(self, receipts: Iterable[Receipt], seconds: float) -> None:
        """Hide messages for some seconds, each in the queue that delivered it."""
        for queue, some in by_queue(receipts).items():
            await (await self.named(queue)).hide(some, seconds)

    async def delete(self, receipts: Iterable[Receipt]) -> None:
        """Delete messages, each from the queue that delivered it."""
        for queue, some in by_queue(receipts).items():
            await (await self.named(queue)).delete(some)


def by_queue(receipts: Iterable[Receipt]) -> dict[str, list[Receipt]]:
    """Return receipts by the queue that delivered them."""
    found: dict[str, list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        found[receipt.queue].append(receipt)
    return found
