from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from verification.scaling.alarm import Source
from verification.scaling.metric_math import Series
from verification.scaling.policy import Cooling, Scaling, Stepped, read_scaling
from verification.scaling.template import read


@pytest.fixture
def scaling() -> Scaling:
    return read_scaling(read("scaling"))


def named(scaling: Scaling, alarm: str) -> Stepped:
    found = next(p for p in scaling.policies if getattr(p, "name", "") == alarm)
    assert isinstance(found, Stepped)
    return found


def test_each_way_to_scale_is_in_the_template(scaling: Scaling) -> None:
    names = {getattr(policy, "name", "") for policy in scaling.policies}

    assert {"MoreAlarm", "StirAlarm", "HelpAlarm", "FewerAlarm", "SleepAlarm"} == names


def test_only_the_workers_are_scaled() -> None:
    resources = read("scaling", App="acme", Env="prod")["Resources"]
    targets = [
        found["Properties"]["ResourceId"]
        for found in resources.values()
        if found["Type"] == "AWS::ApplicationAutoScaling::ScalableTarget"
    ]

    assert ["service/acme-prod/acme-prod-worker"] == targets


@pytest.mark.parametrize(
    ("lacking", "added"), [(0.01, 1), (1, 2), (5.9, 6), (15.9, 16), (300, 128)]
)
def test_what_lacks_is_added_at_once(
    scaling: Scaling, lacking: float, added: int
) -> None:
    assert added == named(scaling, "MoreAlarm").change(lacking, tasks=4)


@pytest.mark.parametrize(
    ("load", "tasks", "left"),
    [(0.59, 10, 7), (0.3, 10, 5), (0.15, 10, 3), (0.0, 20, 2), (0.0, 2, 1)],
)
def test_fewer_stay_the_less_they_have_to_do(
    scaling: Scaling, load: float, tasks: int, left: int
) -> None:
    fewer = named(scaling, "FewerAlarm")

    assert left == tasks + fewer.change(load - fewer.alarm.threshold, tasks)


def test_no_load_falls_between_two_steps(scaling: Scaling) -> None:
    for policy in scaling.policies:
        assert isinstance(policy, Stepped)
        steps = sorted(policy.steps, key=lambda step: step.lower)
        inner = [(a.upper, b.lower) for a, b in pairwise(steps)]
        assert [] == [pair for pair in inner if pair[0] != pair[1]]
        assert len(steps) <= 20, "Application Auto Scaling takes no more"


def test_within_the_cooldown_only_what_is_beyond_the_last_step_is_added() -> None:
    cooling = Cooling()

    added = [
        cooling.out(change, now, 240.0)
        for change, now in [(4, 0), (4, 60), (6, 120), (4, 180), (4, 240)]
    ]

    assert [4, 0, 2, 0, 4] == added


@pytest.mark.parametrize(
    ("alarm", "values", "tasks", "wanted"),
    [
        ("MoreAlarm", {"visible": 190, "inhand": 16, "tasks": 2}, 2, 3),
        (
            "MoreAlarm",
            {"visible": 64, "waiting": 1000, "inhand": 16, "tasks": 2},
            2,
            14,
        ),
        ("SleepAlarm", {"visible": 0, "waiting": 9, "inhand": 0}, 3, None),
        ("MoreAlarm", {"visible": 840, "inhand": 16, "tasks": 10}, 10, None),
        ("MoreAlarm", {"visible": 960, "inhand": None, "tasks": None}, 0, 12),
        ("StirAlarm", {"counted": None, "jobs": 1}, 0, 1),
        ("StirAlarm", {"counted": 1, "jobs": 1}, 0, None),
        ("StirAlarm", {"counted": None, "jobs": 0}, 0, None),
        ("HelpAlarm", {"visible": 9, "inhand": 13, "age": 700}, 4, 6),
        ("HelpAlarm", {"visible": 9, "inhand": 11, "age": 700}, 4, None),
        ("HelpAlarm", {"visible": 0, "inhand": 16, "age": 7000}, 4, None),
        ("HelpAlarm", {"visible": 9, "inhand": 16, "age": 500}, 4, None),
        ("FewerAlarm", {"visible": 0, "inhand": 6, "tasks": 10}, 10, 5),
        ("FewerAlarm", {"visible": 600, "inhand": 2, "tasks": 10}, 10, None),
        ("FewerAlarm", {"visible": 0, "inhand": 2, "tasks": 1}, 1, None),
        ("SleepAlarm", {"visible": 0, "inhand": 0}, 3, 0),
        ("SleepAlarm", {"visible": 0, "inhand": 1}, 3, None),
        ("SleepAlarm", {"visible": 1, "inhand": 0}, 3, None),
        ("SleepAlarm", {"visible": 0, "inhand": None}, 3, None),
    ],
)
def test_an_alarm_asks_for_workers_by_its_figures(
    scaling: Scaling,
    alarm: str,
    values: dict[str, float | None],
    tasks: int,
    wanted: int | None,
) -> None:
    policy = named(scaling, alarm)

    assert wanted == policy.wants(figures(policy, values), tasks, 1000.0)


@pytest.mark.parametrize(
    ("alarm", "values", "tasks", "wanted"),
    [
        ("MoreAlarm", {"visible": 0, "visible1": 700, "visible2": 260}, 0, 12),
        ("MoreAlarm", {"visible": None, "visible1": 960, "visible2": None}, 0, 12),
        ("HelpAlarm", {"visible": 0, "visible2": 1, "age": 9, "age2": 700}, 4, 6),
        ("HelpAlarm", {"visible": 1, "visible2": 1, "age": 400, "age2": 400}, 4, None),
        ("StirAlarm", {"counted": None, "counted1": 1, "jobs": 1}, 0, None),
        ("StirAlarm", {"jobs": 1}, 0, 1),
        ("SleepAlarm", {"visible": 0, "visible1": 0, "visible2": 1}, 3, None),
    ],
)
def test_the_messages_of_each_queue_count(
    alarm: str, values: dict[str, float | None], tasks: int, wanted: int | None
) -> None:
    policy = named(read_scaling(read("scaling", Queue1="gpu", Queue2="slow")), alarm)
    busy = {"inhand": 16.0, "tasks": tasks} if alarm != "SleepAlarm" else {"inhand": 0}
    known = dict.fromkeys(policy.alarm.sources) | busy | values

    assert wanted == policy.wants(figures(policy, known), tasks, 1000.0)


each_figure = pytest.mark.parametrize("late", ["visible", "inhand", "tasks", "waiting"])


@each_figure
@pytest.mark.parametrize("visible", [0, 700])
@pytest.mark.parametrize("alarm", ["MoreAlarm", "FewerAlarm"])
def test_a_late_figure_takes_no_worker_away_and_asks_for_none_twice(
    scaling: Scaling, alarm: str, visible: float, late: str
) -> None:
    policy = named(scaling, alarm)
    busy = {"visible": visible, "inhand": 16.0, "tasks": 10.0}

    assert policy.wants(figures(policy, busy, late), 10, 1000.0) is None


@each_figure
def test_a_late_figure_makes_no_step_larger(scaling: Scaling, late: str) -> None:
    fewer = named(scaling, "FewerAlarm")
    half_busy = {"visible": 0.0, "inhand": 8.0, "tasks": 10.0}

    assert fewer.wants(figures(fewer, half_busy, late), 10, 1000.0) == 7


def test_a_queue_that_tells_later_than_the_others_is_heard(scaling: Scaling) -> None:
    more = named(scaling, "MoreAlarm")
    values = {"visible": 960.0, "inhand": 16.0, "tasks": 2.0}

    assert more.wants(figures(more, values, "visible"), 2, 1000.0) == 14


def figures(
    policy: Stepped, values: Mapping[str, float | None], late: str = ""
) -> dict[Source, Series]:
    """Return minutes that are all the same, the newest without what is late."""
    sources, values = policy.alarm.sources, {"waiting": 0.0, **values}
    found: dict[Source, Series] = {
        source: [values[id_]] * policy.alarm.window for id_, source in sources.items()
    }
    if late:
        found[sources[late]][-1] = None
    return found
