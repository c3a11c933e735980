"""The alarms in the emulator: they come, they go, and the topic tells of both.

The emulator knows no metric math, no M of N and no missing data. `test_metric_math.py`
of the scaling has them by their documentation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.embedded.deploy import make_client
from tests.infra.alarm_template import RESOURCES, of_type
from tests.infra.check.body import with_numbers, without
from tests.infra.check.templates import INFRA, read
from tests.own_emulator import own_emulator

SERVICES = "cloudformation,cloudwatch,kms,sns,sqs,sts"
NOT_KNOWN = {"AWS::CloudWatch::CompositeAlarm", "AWS::CloudWatch::Alarm.Metrics"}
#: Seconds that a figure which sets an alarm off is looked at.
SEEN_S = 2.0
PATIENCE_S = 30.0
PLAIN = {
    found["AlarmName"]: found
    for found in of_type(RESOURCES, "CloudWatch::Alarm").values()
    if "MetricName" in found
}


@pytest.fixture(scope="module")
def aws() -> Iterator[Emulator]:
    """Run an emulator that has CloudWatch and SNS, with the alarms in it."""
    with own_emulator(SERVICES) as running:
        deploy(make_client("cloudformation", running))
        yield running


def deploy(cloudformation: Any) -> None:
    template = read(INFRA / "alarms.yaml")
    given = {n: found["Default"] for n, found in template["Parameters"].items()}
    body = without(with_numbers(template, given), NOT_KNOWN)
    cloudformation.create_stack(
        StackName="acme-prod-alarms",
        TemplateBody=json.dumps(body),
        Parameters=[
            {"ParameterKey": "App", "ParameterValue": "acme"},
            {"ParameterKey": "Env", "ParameterValue": "prod"},
        ],
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="acme-prod-alarms", WaiterConfig={"Delay": 0.05, "MaxAttempts": 400}
    )


def test_each_alarm_starts_and_ends_and_publishes_both(aws: Emulator) -> None:
    cloudwatch, letters = make_client("cloudwatch", aws), Letters(aws)

    for alarm in until_all_are("ALARM", cloudwatch):
        tell(cloudwatch, alarm, bad(alarm), age_s=window(alarm) - SEEN_S)
    came = letters.read(len(PLAIN))
    for alarm in until_all_are("OK", cloudwatch):
        tell(cloudwatch, alarm, good(alarm))
    went = letters.read(len(PLAIN))

    assert dict.fromkeys(PLAIN, "ALARM") == {
        letter["AlarmName"]: letter["NewStateValue"] for letter in came
    }
    assert dict.fromkeys(PLAIN, "OK") == {
        letter["AlarmName"]: letter["NewStateValue"] for letter in went
    }
    assert all("Runbook: docs/runbooks/" in each["AlarmDescription"] for each in came)


def until_all_are(state: str, cloudwatch: Any) -> Iterator[dict[str, Any]]:
    """Yield the alarms that are not in a state, again and again until all are."""
    until = time.monotonic() + PATIENCE_S
    while others := [n for n, seen in states(cloudwatch).items() if seen != state]:
        assert time.monotonic() < until, others
        yield from (PLAIN[name] for name in others)


def window(alarm: dict[str, Any]) -> float:
    """Return the seconds that the emulator looks back."""
    return float(alarm["Period"]) * float(alarm["EvaluationPeriods"])


def bad(alarm: dict[str, Any]) -> float:
    less = alarm["ComparisonOperator"].startswith("LessThan")
    return float(alarm["Threshold"]) + (-1 if less else 1)


def good(alarm: dict[str, Any]) -> float:
    less = alarm["ComparisonOperator"].startswith("LessThan")
    return float(alarm["Threshold"]) if less else 0.0


def tell(
    cloudwatch: Any, alarm: dict[str, Any], value: float, age_s: float = 0.0
) -> None:
    cloudwatch.put_metric_data(
        Namespace=alarm["Namespace"],
        MetricData=[
            {
                "MetricName": alarm["MetricName"],
                "Dimensions": alarm["Dimensions"],
                "Timestamp": datetime.fromtimestamp(time.time() - age_s, UTC),
                "Value": value,
            }
        ],
    )


def states(cloudwatch: Any) -> dict[str, str]:
    alarms = cloudwatch.describe_alarms(AlarmNames=list(PLAIN))["MetricAlarms"]
    return {alarm["AlarmName"]: alarm["StateValue"] for alarm in alarms}


class Letters:
    """What the topic tells, by way of a queue."""

    def __init__(self, aws: Emulator) -> None:
        self.sqs = make_client("sqs", aws)
        self.url = self.sqs.create_queue(QueueName="told")["QueueUrl"]
        sns = make_client("sns", aws)
        (topic,) = sns.list_topics()["Topics"]
        asked = {"QueueUrl": self.url, "AttributeNames": ["QueueArn"]}
        arn = self.sqs.get_queue_attributes(**asked)["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=topic["TopicArn"], Protocol="sqs", Endpoint=arn)

    def read(self, count: int) -> list[dict[str, Any]]:
        """Take so many letters."""
        found: list[dict[str, Any]] = []
        until = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < until:
            reply = self.sqs.receive_message(
                QueueUrl=self.url, MaxNumberOfMessages=10, WaitTimeSeconds=1
            )
            for message in reply.get("Messages", []):
                found.append(json.loads(json.loads(message["Body"])["Message"]))
                self.sqs.delete_message(
                    QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"]
                )
        return found
