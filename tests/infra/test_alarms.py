"""Each alarm has its page and says what to do first; the right ones may be silent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.infra.alarm_template import (
    ALARMS,
    INDEX,
    PAGES,
    PREFIX,
    RESOURCES,
    SCALERS,
    TELLING,
    first_command,
    page_of,
    watched_by,
)
from tests.infra.check.samples import ACCOUNT, REGION
from verification.scaling import metric_math
from verification.scaling.alarm import Source, read_alarm
from verification.scaling.metric_math import Series

HEADINGS = [
    "What it means",
    "How to see it",
    "What to do",
    "How to check that it is resolved",
    "How to prevent it",
]
each_alarm = pytest.mark.parametrize("alarm", ALARMS.values(), ids=ALARMS.keys())
each_telling = pytest.mark.parametrize("alarm", TELLING.values(), ids=TELLING.keys())
each_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES.keys())


def test_each_alarm_has_its_page_and_each_page_its_alarm() -> None:
    names = {found["AlarmName"].removeprefix(PREFIX) for found in TELLING.values()}

    assert names == set(PAGES)
    assert names == set(re.findall(r"^\| \[([\w-]+)\]\(\1\.md\)", INDEX, re.MULTILINE))


@each_alarm
def test_an_alarm_links_its_page(alarm: dict[str, Any]) -> None:
    page = page_of(alarm)

    assert page.is_file()
    assert alarm["AlarmName"].removeprefix(PREFIX).startswith(page.stem)
    assert len(alarm["AlarmDescription"]) <= 1024, "CloudWatch takes no more"


@each_telling
def test_an_alarm_publishes_its_start_and_its_end(
    alarm: dict[str, Any],
) -> None:
    assert [["acme-prod-alarms"]] * 2 == [alarm["AlarmActions"], alarm["OKActions"]]


@pytest.mark.parametrize("name", ["throttles", "table-throttles"])
def test_a_throttled_minute_alone_raises_no_alarm(name: str) -> None:
    """A new table throttles its first minute, and doubles its capacity by itself."""
    (alarm,) = (a for a in TELLING.values() if a["AlarmName"] == f"{PREFIX}{name}")

    assert 2 <= alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"])


@each_telling
def test_an_alarm_has_the_first_command_to_type(alarm: dict[str, Any]) -> None:
    assert re.match(r"(PIECEWORK_ENV=prod piecework|aws) ", first_command(alarm))


@each_page
def test_a_page_answers_the_five_questions(page: Path) -> None:
    _, *parts = re.split(r"^## (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)

    assert HEADINGS == parts[::2]
    assert [] == [part for part in parts if not part.strip()]


@each_page
def test_what_a_page_says_is_watched_is_what_the_alarm_watches(page: Path) -> None:
    (line,) = re.findall(r"^Watched: (.+)$", page.read_text("utf-8"), re.MULTILINE)
    said = set(re.findall(r"`([A-Z][a-z]\w+)`", line))
    alarms = [alarm for alarm in ALARMS.values() if page_of(alarm) == page]

    assert {metric.name for alarm in alarms for metric in watched_by(alarm)} == said


def test_the_error_budget_needs_both_windows_of_a_pair() -> None:
    rule = re.sub(r"\s+", " ", RESOURCES["ErrorBudgetAlarm"]["Properties"]["AlarmRule"])
    burns = {n: found for n, found in ALARMS.items() if n.endswith("Burn")}
    thresholds = {n: found["Threshold"] for n, found in burns.items()}
    periods = {
        n: {q["MetricStat"]["Period"] for q in found["Metrics"] if "MetricStat" in q}
        for n, found in burns.items()
    }

    assert rule == (
        '(ALARM("FastLongBurn") AND ALARM("FastShortBurn")) '
        'OR (ALARM("SlowLongBurn") AND ALARM("SlowShortBurn"))'
    )
    assert {
        "FastLongBurn": 14.4,
        "FastShortBurn": 14.4,
        "SlowLongBurn": 6,
        "SlowShortBurn": 6,
    } == thresholds
    assert {
        "FastLongBurn": {3600},
        "FastShortBurn": {300},
        "SlowLongBurn": {21600},
        "SlowShortBurn": {1800},
    } == periods
    assert not [found for found in burns.values() if "AlarmActions" in found]


def test_no_alarm_watches_metrics_of_dynamodb() -> None:
    # Such an alarm keeps its state while data is missing, whatever it declares.
    spaces = {m.namespace for alarm in ALARMS.values() for m in watched_by(alarm)}

    assert {"Piecework", "AWS/SQS", "ECS/ContainerInsights"} == spaces


def test_a_message_that_each_pass_receives_in_vain_starts_the_alarm() -> None:
    watched = read_alarm(ALARMS["DeadLetterQueueAlarm"])
    figures: dict[Source, Series] = {
        source: [
            float((minute % 3 == 0) is (name == "visible")) for minute in range(15)
        ]
        for name, source in watched.sources.items()
    }

    assert watched.breaching_value(figures) == 1


@pytest.mark.parametrize("missing", ["as 0", "as missing"])
@pytest.mark.parametrize(
    ("running", "lacking"),
    [
        ([2, 2, 2], [0, 0, 0]),
        ([2, 1, 0], [0, 1, 2]),
        ([2, None, None], [0, 2, 2]),
    ],
)
def test_workers_are_missing_at_zero_tasks_too(
    running: list[float | None],
    lacking: list[float],
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queries = ALARMS["WorkersMissingAlarm"]["Metrics"]
    expressions = {q["Id"]: q["Expression"] for q in queries if "Expression" in q}
    minute = metric_math.of_minute

    def read(apply: Any, x: float | None, y: float | None, **_: bool) -> float | None:
        return minute(apply, x, y, strict=missing != "as 0")

    monkeypatch.setattr(metric_math, "of_minute", read)
    given: dict[str, metric_math.Series] = {
        "desired": [2.0, 2.0, 2.0],
        "running": running,
    }

    assert lacking == metric_math.evaluate(expressions, "lacking", given)


def test_only_silence_of_the_reconciler_is_an_alarm() -> None:
    plain = {n: a for n, a in ALARMS.items() if "TreatMissingData" in a}

    assert set(ALARMS) - set(plain) == {"ErrorBudgetAlarm"}
    assert ["ReconcilerSilentAlarm"] == [
        n for n, a in plain.items() if a["TreatMissingData"] != "notBreaching"
    ]


def test_only_alarms_of_this_deployment_may_use_the_topic_and_its_key() -> None:
    wanted = {
        "StringEquals": {"aws:SourceAccount": ACCOUNT},
        "ArnLike": {
            "aws:SourceArn": f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:acme-prod-*",
        },
    }
    statements = [
        *RESOURCES["TopicPolicy"]["Properties"]["PolicyDocument"]["Statement"],
        *RESOURCES["Key"]["Properties"]["KeyPolicy"]["Statement"],
    ]
    services = [
        statement["Condition"]
        for statement in statements
        if "Service" in statement["Principal"]
    ]

    assert [wanted, wanted] == services
    names = [a["AlarmName"] for a in [*ALARMS.values(), *SCALERS.values()]]
    assert [] == [name for name in names if not name.startswith("acme-prod-")]
    tls = next(s for s in statements if s["Sid"] == "TlsOnly")
    assert tls["Effect"] == "Deny"
    assert tls["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_topic_is_encrypted_with_a_key_that_alarms_may_use() -> None:
    key = RESOURCES["Topic"]["Properties"]["KmsMasterKeyId"]

    assert key == "Key.Arn"
    assert RESOURCES["Key"]["Properties"]["EnableKeyRotation"] is True
