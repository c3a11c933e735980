"""Guarantee: a deleted job leaves a tombstone, and no trace of a payload."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import moment
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import NotFoundError, UsageError
from piecework.jobs.deletion import Sweep
from piecework.reconciler.loop import Reconciler
from piecework.runtime import Runtime
from piecework.store.deletions import SECOND_SWEEP_S, Deletions
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.deletion import delete
from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Diary, Item, counting, revealing

JOB = JobRef("default", "job-1")
#: A part of each payload, of the edited one, too.
SECRET = "margarethe"
DAY_S = 86_400


async def stored(rt: Runtime) -> dict[str, str]:
    """Return every row of both tables, and every version of every object."""
    found = {}
    for table in (rt.table, rt.dead_letters):
        async for item in table.scan():
            found[f"{table.name} {item['pk']} {item['sk']}"] = repr(item)
    s3, bucket = rt.objects.client, rt.objects.bucket
    for each in (await s3.list_object_versions(Bucket=bucket)).get("Versions", []):
        place = {"Key": each["Key"], "VersionId": each["VersionId"]}
        reply = await s3.get_object(Bucket=bucket, **place)
        body = (await reply["Body"].read()).decode()
        found["object {Key} {VersionId}".format(**place)] = body
    return found


async def traces(rt: Runtime) -> set[str]:
    """Return where a payload is found in the tables and the bucket, in each kind."""
    found = [k for k, v in (await stored(rt)).items() if SECRET in k + v]
    return {kind_of(key) for key in found}


def kind_of(place: str) -> str:
    """Return the kind of a row or an object."""
    if place.startswith("object "):
        return place.split("/")[4]
    if "dead-letters" in place:
        return "dead letter"
    name = place.rsplit(maxsplit=1)[-1]
    return name.split("#")[2] if name.startswith("WORK#") else name.split("#")[0]


#: What holds a payload, or a part of it, at the end of the job below. The pages of the
#: call journal are compressed, so no text is found in them.
EVERYWHERE = {
    *("CHUNK", "RESULT", "STAGE", "EFFECT", "dead letter"),
    *("payload", "manifest", "values", "calls", "effects", "artifacts", "certificate"),
}


async def revealed(scenario: Scenario) -> Job:
    """Run a job with results, dead letters, an edit, effects and large values."""
    outcomes = ("result", "large", "error", "error")
    texts = [Diary(secret=f"{SECRET} {o}", outcome=o) for o in outcomes]
    await scenario.submit(revealing, texts)
    worker = await scenario.process()
    await scenario.ended()
    edited = json.dumps({"secret": f"{SECRET} edited", "outcome": "large"})
    redriven = await piecework(
        *("dlq", "redrive", "--job", "job-1", "--chunk", "2", "--patch", edited),
        *("--reason", "it is edited", "--yes"),
    )
    assert redriven.exit_code == 0, redriven.stderr
    job = await scenario.ended()
    assert await worker.stop() == 0  # it writes its counters, which no deletion misses
    return job


@pytest.mark.parametrize("continued_by", ["the command", "a reconciler"])
async def test_a_deletion_that_was_killed_continues_and_leaves_only_the_tombstone(
    machine: Scenario, continued_by: str
) -> None:
    job = await revealed(machine)
    rt, certificate = machine.rt, job.certificate_sha256
    assert EVERYWHERE <= await traces(rt)

    await Deletions(rt.table, rt.clock).begin(job, "me", "the customer left")
    begun = await machine.job()
    assert not await Sweep(rt, begun, most=12).run()  # and its process is killed
    with pytest.raises(NotFoundError, match="is being deleted: by me") as gone:
        await machine.submit(counting, [Item(n=1)])
    assert gone.value.code == "job.record.deleted"

    if continued_by == "the command":
        done = await piecework(
            *("jobs", "delete", "job-1", "--reason", "again", "-o", "json")
        )
        assert done.document["status"] == "DELETED"
    else:
        later = replace(rt, clock=lambda: machine.rt.clock() + 31)
        await Reconciler(later, machine.log).run_pass()

    assert await traces(rt) == set()
    left = {k.split(" ", 1)[1] for k in await stored(rt) if "job-1" in k}
    stone = await machine.job()
    assert stone.status is JobStatus.DELETED
    assert left == {
        f"{JOB.pk} META",
        f"{keys.jobs_pk('default')} {keys.jobs_sk(stone.created_at, 'job-1')}",
        f"{keys.EXPIRY_PK} {keys.expiry_sk(stone.delete_after, 'default', 'job-1')}",
    }
    shown = (await piecework("jobs", "show", "job-1", "-o", "json")).document
    assert shown["deletion"] == {
        **shown["deletion"],
        "deleted_by": "me",
        "delete_reason": "the customer left",
        "certificate_sha256": certificate,
        "outcomes": {"DEAD": 1, "SUCCEEDED": 3},
    }
    assert "the customer left" in (await piecework("jobs", "show", "job-1")).stdout


async def test_a_deleted_job_answers_every_command_and_a_late_write_is_swept(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=1)])
    early = await piecework("jobs", "delete", "job-1", "--reason", "x", "--yes")
    assert (early.exit_code, "job.state.not_deletable" in early.stderr) == (2, True)
    await cancel(scenario.rt, JOB, actor="me", reason="enough")
    with pytest.raises(UsageError, match="needs a reason"):
        await delete(scenario.rt, JOB, actor="me", reason=" ")
    unasked = await piecework("jobs", "delete", "job-1", "--reason", "x")
    assert "error cli.confirmation.needed" in unasked.stderr
    rt = scenario.rt
    assert (await delete(rt, JOB, actor="me", reason="x")).status is JobStatus.DELETED

    # The message of its chunk is still in the queue.
    async with scenario.worker():
        await scenario.until(lambda: queue_is_empty(scenario))
    assert [k for k in await stored(rt) if keys.QUARANTINE_PK in k] == []
    for words in (
        ("results", "job-1"),
        ("jobs", "watch", "job-1"),
        ("jobs", "retry", "job-1"),
        ("dlq", "list", "--job", "job-1"),
    ):
        refused = await piecework(*words)
        assert "job.record.deleted" in refused.stderr, words
        assert "piecework jobs show job-1" in refused.stderr
    (listed,) = (await piecework("jobs", "list", "-o", "json")).document
    assert (listed["job"], listed["status"]) == ("job-1", "DELETED")

    late = rt.table.item_write(
        "Put", JOB.pk, "WORK#00000000#CALLS#x", item={"a": SECRET}
    )
    await rt.table.put(late)
    at = rt.clock() + SECOND_SWEEP_S + 1
    await Reconciler(replace(rt, clock=lambda: at), scenario.log).run_pass()
    assert await traces(rt) == set()
    assert [k for k in await stored(rt) if keys.EXPIRY_PK in k] == []


async def queue_is_empty(scenario: Scenario) -> bool:
    """Return whether no message is left, visible or hidden."""
    return await scenario.rt.work.default.depth() == 0


async def test_a_job_expires_whole_and_an_open_dead_letter_keeps_it(
    scenario: Scenario,
) -> None:
    rt, days = scenario.rt, scenario.rt.settings.job_retention_days
    await scenario.submit(revealing, [Diary(secret=SECRET), Diary(secret=f"{SECRET}2")])
    await scenario.submit(
        revealing, [Diary(secret=f"no {SECRET}", outcome="error")], "failed"
    )
    await scenario.submit(counting, [Item(n=1)], "running")
    await scenario.process()
    ended = await scenario.ended()
    await scenario.ended("failed")
    await scenario.ended("running")
    await piecework("jobs", "pause", "running")

    async def pass_on_day(day: float) -> None:
        now = rt.clock() + day * DAY_S
        await Reconciler(replace(rt, clock=lambda: now), scenario.log).run_pass()
        await Reconciler(replace(rt, clock=lambda: now), scenario.log).run_pass()

    await pass_on_day(days - 0.5)
    assert await scenario.job() == ended
    await pass_on_day(days + 0.5)
    assert (await scenario.job()).status is JobStatus.DELETED
    assert (await scenario.job()).deletion["deleted_by"] == "retention"

    kept = await scenario.job("failed")
    events = await rt.jobs.events(kept.ref)
    assert (kept.status, kept.is_kept) == (JobStatus.FAILED, True)
    assert [e.facts["open_dead_letters"] for e in events if e.event == "kept"] == [1]
    await pass_on_day(days + 3)
    again = [e.event for e in await rt.jobs.events(kept.ref)]
    assert again.count("kept") == 1

    # Its retention begins again when the letter is settled.
    discarded = ("dlq", "discard", "--job", "failed", "--reason", "no", "--yes")
    assert (await piecework(*discarded)).exit_code == 0
    await pass_on_day(days + 5)
    assert (await scenario.job("failed")).status is JobStatus.DELETED

    # Only rows with a time are left: DynamoDB deletes them, or an operator at once.
    assert await traces(rt) == {"CHUNK", "STAGE", "RESULT", "EFFECT"}
    left = [row async for row in rt.table.scan() if row["pk"].startswith(kept.ref.pk)]
    until = int(moment((await scenario.job("failed")).rows_until))
    assert {row.get("expires_at", until) for row in left} == {until}
    assert [row["sk"] for row in left if "expires_at" not in row] == [keys.META_SK]
    for job in ("job-1", "failed"):
        done = await piecework("jobs", "delete", job, "--reason", "now", "--yes")
        assert done.exit_code == 0, done.stderr
    assert await traces(rt) == set()
