"""The account in which a run takes place: its names, and what is left in it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import boto3

#: Seconds that deleted resources may still be listed for.
GONE_S: Final = 180.0


@dataclass(slots=True)
class Account:
    """An account, and the names of one run in it.

    Attributes:
        env: The environment; every name of the run begins with `piecework-ENV-`.
        environ: The variables by which processes reach the account.
        session: Reaches it, too.
    """

    env: str
    environ: Mapping[str, str]
    session: boto3.Session
    endpoint: str = ""
    _clients: dict[str, Any] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """The beginning of all names of the run."""
        return f"piecework-{self.env}-"

    def client(self, service: str) -> Any:
        """Return a client of a service, one for all uses."""
        if service not in self._clients:
            where = {"endpoint_url": self.endpoint} if self.endpoint else {}
            self._clients[service] = self.session.client(service, **where)
        return self._clients[service]

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients.values():
            client.close()

    def number(self) -> str:
        """Return the account's number, all but its last four digits hidden."""
        found = str(self.client("sts").get_caller_identity()["Account"])
        return f"********{found[-4:]}"

    # ── what a run leaves ─────────────────────────────────────────────────────

    def left(self) -> list[str]:
        """Return the stacks, tables, queues and buckets of the run that exist."""
        return [*self._stacks(), *self._tables(), *self._queues(), *self._buckets()]

    def remove_rest(self) -> None:
        """Delete what no command has removed: the bucket, and all after a failure."""
        cloudformation = self.client("cloudformation")
        for stack in self._stacks():  # the newest first
            cloudformation.update_termination_protection(
                EnableTerminationProtection=False, StackName=stack
            )
            cloudformation.delete_stack(StackName=stack)
            waiting = {"Delay": 5, "MaxAttempts": 120}
            waiter = cloudformation.get_waiter("stack_delete_complete")
            waiter.wait(StackName=stack, WaiterConfig=waiting)
        for bucket in self._buckets():
            self._empty(bucket)
            self.client("s3").delete_bucket(Bucket=bucket)
        for url in self._queues():
            self.client("sqs").delete_queue(QueueUrl=url)
        for table in self._tables():
            self.client("dynamodb").delete_table(TableName=table)

    def wait_until_gone(self) -> list[str]:
        """Wait until nothing of the run is listed; return what still is."""
        until = time.monotonic() + GONE_S
        while (left := self.left()) and time.monotonic() < until:
            time.sleep(1.0)
        return left

    def _stacks(self) -> list[str]:
        pages = self.client("cloudformation").get_paginator("describe_stacks")
        names = [s["StackName"] for page in pages.paginate() for s in page["Stacks"]]
        return [name for name in names if name.startswith(self.prefix)]

    def _tables(self) -> list[str]:
        pages = self.client("dynamodb").get_paginator("list_tables").paginate()
        names = [name for page in pages for name in page["TableNames"]]
        return [name for name in names if name.startswith(self.prefix)]

    def _queues(self) -> list[str]:
        pages = self.client("sqs").get_paginator("list_queues")
        found = pages.paginate(QueueNamePrefix=self.prefix)
        return [url for page in found for url in page.get("QueueUrls", [])]

    def _buckets(self) -> list[str]:
        names = [b["Name"] for b in self.client("s3").list_buckets()["Buckets"]]
        return [name for name in names if name.startswith(self.prefix)]

    def _empty(self, bucket: str) -> None:
        s3 = self.client("s3")
        for keys in self._versions(bucket):
            s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})

    def _versions(self, bucket: str) -> Iterator[list[dict[str, str]]]:
        pages = self.client("s3").get_paginator("list_object_versions")
        for page in pages.paginate(Bucket=bucket):
            some = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            if some:
                yield [{"Key": o["Key"], "VersionId": o["VersionId"]} for o in some]

    # ── what AWS counted ──────────────────────────────────────────────────────

    def written_units(self, since: float) -> float | None:
        """Return the write units that CloudWatch counted; None: it has none yet."""
        end, found = time.time() + 60.0, []
        for table in self._tables():
            reply = self.client("cloudwatch").get_metric_statistics(
                Namespace="AWS/DynamoDB",
                MetricName="ConsumedWriteCapacityUnits",
                Dimensions=[{"Name": "TableName", "Value": table}],
                StartTime=since - 60.0,
                EndTime=end,
                Period=60,
                Statistics=["Sum"],
            )
            found += [point["Sum"] for point in reply["Datapoints"]]
        return sum(found) if found else None
