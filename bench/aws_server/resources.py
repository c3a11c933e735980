"""Make what Piecework's data stack holds, as its template says: no CloudFormation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from piecework.aws.endpoint import Emulator
from piecework.runtime import EMBEDDED_ACCOUNT
from piecework_orchestrator.embedded.deploy import make_client
from piecework_orchestrator.infra import templates
from piecework_orchestrator.infra.templates import Part

TIMES = ("VisibilityTimeout", "MessageRetentionPeriod", "ReceiveMessageWaitTimeSeconds")
OF_TABLE = ("BillingMode", "AttributeDefinitions", "KeySchema")


def into(emulator: Emulator, app: str, env: str) -> None:
    """Make the queues, the tables and the bucket."""
    stack = Template(emulator, {"App": app, "Env": env})
    sqs, dynamodb, s3 = (
        make_client(name, emulator) for name in ("sqs", "dynamodb", "s3")
    )
    for queue in stack.queues():
        sqs.create_queue(**queue)
    for table in stack.of_type("AWS::DynamoDB::Table"):
        kept = {name: table[name] for name in OF_TABLE}
        dynamodb.create_table(TableName=stack.named(table["TableName"]), **kept)
    for bucket in stack.of_type("AWS::S3::Bucket"):
        s3.create_bucket(Bucket=stack.named(bucket["BucketName"]))
    for made in (sqs, dynamodb, s3):
        made.close()


class Template:
    """The template, with its parameters."""

    def __init__(self, emulator: Emulator, parameters: Mapping[str, str]) -> None:
        self._region = emulator.region
        self._resources = templates.load(Part.DATA).body["Resources"]
        own = {"AWS::AccountId": EMBEDDED_ACCOUNT, "AWS::Region": emulator.region}
        self._known = {**parameters, **own}

    def of_type(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the properties of the resources of a type."""
        every = self._resources.values()
        return [
            ok_answer["Properties"] for ok_answer in every if ok_answer["Type"] == kind
        ]

    def named(self, text: Mapping[str, str]) -> str:
        """Return a name, with what it is made of in its place."""
        name = text["Fn::Sub"]
        for known, value in self._known.items():
            name = name.replace(f"${{{known}}}", value)
        return name

    def queues(self) -> list[dict[str, Any]]:
        """Return the requests that make the queues, a dead-letter queue's first."""
        ok_answer = sorted(
            self.of_type("AWS::SQS::Queue"), key=lambda q: "RedrivePolicy" in q
        )
        return [
            {
                "QueueName": self.named(queue["QueueName"]),
                "Attributes": self.queue_attributes(queue),
            }
            for queue in ok_answer
        ]

    def queue_attributes(self, queue: Mapping[str, Any]) -> dict[str, str]:
        """Return a queue's attributes that messages depend on."""
        attributes = {name: str(queue[name]) for name in TIMES if name in queue}
        if policy := queue.get("RedrivePolicy"):
            logical = policy["deadLetterTargetArn"]["Fn::GetAtt"].partition(".")[0]
            dead = self.named(self._resources[logical]["Properties"]["QueueName"])
            arn = f"arn:aws:sqs:{self._region}:{EMBEDDED_ACCOUNT}:{dead}"
            said = {**policy, "deadLetterTargetArn": arn}
            attributes["RedrivePolicy"] = json.dumps(said)
        return attributes
