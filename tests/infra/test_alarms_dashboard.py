"""A process emits each metric that an alarm, the scaling or the dashboard names."""

from __future__ import annotations

import json

from piecework.telemetry.metrics import METRICS
from tests.infra.alarm_template import (
    ALARMS,
    SCALERS,
    TELLING,
    Named,
    shown,
    watched_by,
    widgets,
)
from tests.infra.check.samples import ACCOUNT, REGION
from verification.scaling.template import read

QUEUE, TABLE, SERVICE = {"QueueName"}, {"TableName"}, {"ClusterName", "ServiceName"}
#: The metrics of AWS that we may name, and their dimensions.
OF_AWS = {
    ("AWS/SQS", "ApproximateAgeOfOldestMessage"): QUEUE,
    ("AWS/SQS", "ApproximateNumberOfMessagesDelayed"): QUEUE,
    ("AWS/SQS", "ApproximateNumberOfMessagesNotVisible"): QUEUE,
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible"): QUEUE,
    ("AWS/SQS", "NumberOfEmptyReceives"): QUEUE,
    ("AWS/SQS", "NumberOfMessagesReceived"): QUEUE,
    ("AWS/SQS", "NumberOfMessagesSent"): QUEUE,
    ("AWS/DynamoDB", "ConsumedReadCapacityUnits"): TABLE,
    ("AWS/DynamoDB", "ConsumedWriteCapacityUnits"): TABLE,
    ("AWS/DynamoDB", "ReadThrottleEvents"): TABLE,
    ("AWS/DynamoDB", "WriteThrottleEvents"): TABLE,
    ("AWS/ECS", "CPUUtilization"): SERVICE,
    ("AWS/ECS", "MemoryUtilization"): SERVICE,
    ("ECS/ContainerInsights", "DesiredTaskCount"): SERVICE,
    ("ECS/ContainerInsights", "RunningTaskCount"): SERVICE,
}
TOLD = OF_AWS | {("Piecework", name): {"App", "Env"} for name in METRICS}
#: What the dimensions say in a deployment named so.
VALUES = {
    "App": {"acme"},
    "Env": {"prod"},
    "ClusterName": {"acme-prod"},
    "QueueName": {"acme-prod-work", "acme-prod-work-dlq"},
    "ServiceName": {"acme-prod-worker"},
    "TableName": {"acme-prod-checkpoints", "acme-prod-dead-letters"},
}
NAMED = [
    *(metric for alarm in ALARMS.values() for metric in watched_by(alarm)),
    *(metric for alarm in SCALERS.values() for metric in watched_by(alarm)),
    *shown(),
]


def is_told(metric: Named) -> bool:
    dimensions = metric.dimensions
    return TOLD.get(metric[:2]) == set(dimensions) and all(
        value in VALUES[key] for key, value in dimensions.items()
    )


def test_each_named_metric_is_emitted() -> None:
    assert len(NAMED) > 60
    assert [] == [metric for metric in NAMED if not is_told(metric)]


def test_the_dashboard_shows_each_alarm_and_each_metric_of_ours() -> None:
    (board,) = (w["properties"] for w in widgets() if w["type"] == "alarm")
    arns = {
        f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{alarm['AlarmName']}"
        for alarm in TELLING.values()
    }
    ours = {metric.name for metric in shown() if metric.namespace == "Piecework"}

    assert arns == set(board["alarms"])
    assert set(METRICS) == ours


def test_no_two_widgets_are_in_one_place() -> None:
    taken = [
        (x, y)
        for w in widgets()
        for x in range(w["x"], w["x"] + w["width"])
        for y in range(w["y"], w["y"] + w["height"])
    ]

    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24


def test_the_dashboard_has_the_queues_that_pipelines_declare() -> None:
    found = read("alarms", App="acme", Env="prod", Queue1="gpu", Queue3="slow")
    body = json.loads(found["Resources"]["Dashboard"]["Properties"]["DashboardBody"])
    rows = [row for w in body["widgets"] for row in w["properties"].get("metrics", ())]
    seen = {(row[1], row[3].partition("_")[2]) for row in rows if row[0] == "AWS/SQS"}
    names = ("ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage")
    assert {(name, queue) for name in names for queue in ("gpu", "slow")} <= seen
