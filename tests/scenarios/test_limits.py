"""All workers of a fleet keep to one limit, and what does not fit waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from piecework.domain.moments import moment
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.resilience.limits import QUOTA_CODE
from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, drawing, scraping

#: The limit of `metered`, in calls a second, and of the time over which it is spread.
A_SECOND, SPREAD_S = 240 / 61.5, 1.5


def most_calls(times: list[float], seconds: float) -> int:
    """Return the most calls in any window of so many seconds."""
    return max(sum(begin <= at < begin + seconds for at in times) for begin in times)


@pytest.mark.usefixtures("short_leases")
async def test_a_fleet_keeps_to_its_limit_while_a_worker_with_quota_is_killed(
    scenario: Scenario,
) -> None:
    await scenario.submit(drawing, [Item(n=n, calls=10) for n in range(8)])
    workers = [await scenario.process() for _ in range(3)]
    await scenario.until(lambda: scenario.happened("consumed") >= 20)
    await workers[0].kill()
    assert JobStatus.SUCCEEDED is (await scenario.ended()).status
    times = sorted(float(line[2]) for line in scenario.ledger)
    for window in (5.0, 10.0, 15.0):
        assert most_calls(times, window) <= (window + SPREAD_S) * A_SECOND + 1
    # The others went on at once, without the second of the dead worker's quota.
    assert (len(times) - 1) / (times[-1] - times[0]) >= 0.5 * A_SECOND
    rows = (await piecework("limits", "list", "-o", "json")).document
    assert [("metered", 240)] == [
        (row["dependency"], row["requests_per_minute"]) for row in rows
    ]


async def test_a_call_without_quota_defers_its_chunk_until_an_operator_gives_more(
    scenario: Scenario,
) -> None:
    impatient = replace(scenario.rt.settings, quota_wait_s=1.0)
    scenario.rt = replace(scenario.rt, settings=impatient)
    await scenario.submit(scraping, [Item(n=n) for n in range(12)])
    async with scenario.worker():

        async def deferred() -> bool:
            chunks = await scenario.chunks()
            return any(c.item.get("error_code") == QUOTA_CODE for c in chunks)

        await scenario.until(deferred)
        waiting = [c for c in await scenario.chunks() if c.item.get("blocked_on")]
        assert {("scarce", ChunkStatus.WAITING, 0)} == {
            (c.item["blocked_on"], c.status, c.attempts) for c in waiting
        }
        shown = (await piecework("jobs", "show", "job-1", "-o", "json")).document
        assert QUOTA_CODE == shown["status_reason"]["code"]
        assert "waits for dependency scarce" in str(shown["status_reason"])
        more = ("--requests-per-minute", "6000", "-o", "json")
        told = await piecework("limits", "set", "scarce", *more)
        assert (6000, 60) == (
            told.document["requests_per_minute"],
            told.document["declared_requests_per_minute"],
        )
        assert JobStatus.SUCCEEDED is (await scenario.ended()).status
    assert [1] * 12 == [chunk.attempts for chunk in await scenario.chunks()]
    back = await piecework("limits", "set", "scarce", "--unset", "-o", "json")
    assert 60 == back.document["requests_per_minute"]


async def test_a_limit_without_a_number_is_refused(scenario: Scenario) -> None:
    told = await piecework("limits", "set", "scarce")
    assert 2 == told.exit_code
    assert "--requests-per-minute" in told.stderr


async def test_a_pause_says_what_it_replaces_and_whether_anything_has_the_name(
    scenario: Scenario,
) -> None:
    await scenario.submit(scraping, [Item(n=1)])
    for said in ("no limit: check the name", "in 3 seconds\n"):
        told = await piecework("limits", "set", "scarce", "--requests-per-minute", "60")
        assert " ".join(told.stderr.split()).endswith(said.strip())
        assert "known" not in told.stdout
    for noun, name, typo in (
        ("limits", "scarce", "SCARC"),
        ("pipelines", "scraping", "scrapping"),
    ):
        first = await piecework(noun, "pause", name, "--reason", "costs", "-o", "json")
        assert (True, False) == (
            first.document["known"],
            bool(first.document["replaced"]),
        )
        again = await piecework(noun, "pause", name, "--reason", "prices")
        said = " ".join(again.stderr.split())
        assert "it was paused already: costs (by " in said
        assert "this reason replaces it" in said
        assert "check the name" not in said
        unknown = await piecework(noun, "pause", typo, "--reason", "costs")
        said = " ".join(unknown.stderr.split())
        assert f" '{typo}'" in said
        assert f": check the name; similar names: {name}" in said
        assert "paused already" not in said
        assert 0 == (await piecework(noun, "resume", typo)).exit_code
        listed = (await piecework(noun, "list", "-o", "json")).document
        assert [name] == [row[DISPLAYED[noun]] for row in listed]


#: The column of the name in each list.
DISPLAYED = {"limits": "dependency", "pipelines": "pipeline"}


def most_at_once(spans: list[tuple[float, float]]) -> int:
    """Return the most spans that contain one moment."""
    return max(sum(a <= begin < b for a, b in spans) for begin, _ in spans)


@pytest.mark.usefixtures("short_leases")
async def test_the_fleet_keeps_to_the_cap_of_a_tenant_while_a_worker_is_killed(
    scenario: Scenario,
) -> None:
    cap = ("limits", "set", "tenant:default")
    for words in (
        (*cap, "--tokens-per-minute", "9"),
        ("limits", "set", "Tenant:default", "--concurrent", "3"),
        ("limits", "set", " ", "--concurrent", "3"),
        ("limits", "pause", cap[-1], "--reason", "too much"),
    ):
        assert 2 == (await piecework(*words)).exit_code
    assert 0 == (await piecework(*cap, "--concurrent", "3")).exit_code
    await scenario.submit(drawing, [Item(n=n, calls=1) for n in range(30)])
    workers = [await scenario.process() for _ in range(2)]
    await scenario.until(lambda: scenario.happened("consumed") >= 6)
    await workers[0].kill()

    async def capped() -> bool:
        told = await piecework("jobs", "explain", "job-1", "-o", "json")
        return "tenant.capped" in {each["code"] for each in told.document["findings"]}

    await scenario.until(capped)
    assert JobStatus.SUCCEEDED is (await scenario.ended()).status
    chunks = await scenario.chunks()
    spans = [(moment(c.item["claimed_at"]), moment(c.ended_at)) for c in chunks]
    assert 3 == most_at_once(spans)
    listed = (await piecework("limits", "list", "-o", "json")).document
    assert 3 == {row["dependency"]: row["concurrent"] for row in listed}[cap[-1]]
