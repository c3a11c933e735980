from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from piecework.domain.refs import JobRef
from piecework.errors import PermanentError, UsageError
from piecework.settings import Settings
from piecework_orchestrator.results.export import write_parquet
from piecework_orchestrator.results.results import Follower
from tests.unit.orchestrator.cli.deployment import SETTLED, Bucket, Deployment

Run = Callable[..., Any]
ARTIFACTS = "tenants/default/jobs/a/artifacts"


def printed(done: Any) -> list[Any]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_ended_chunk_is_a_line_and_a_dead_chunk_has_its_code(
    here: Deployment,
) -> None:
    here.job("a", "RUNNING", 3)
    here.succeeded("a", 0, {"n": 1})
    here.chunk("a", 1, "DEAD", error_code="toy.line.bad")
    here.chunk("a", 2, "RUNNING")
    done = here.run("results", "a")
    first = {"chunk": 0, "label": "chunk 0", "status": "SUCCEEDED", "value": {"n": 1}}
    second = {"chunk": 1, "label": "chunk 1", "status": "DEAD"}
    assert [first, second | {"error_code": "toy.line.bad"}] == printed(done)
    assert "2 of 3 chunks have ended; next: piecework results a --follow" in done.stderr


@pytest.mark.parametrize("value", [{}, 2**70, "text"])
def test_results_that_do_not_fit_a_table_are_refused(value: object) -> None:
    rows = iter([{"value": value}, {"value": value if value == {} else 1}])
    with pytest.raises(UsageError, match="do not fit"):
        write_parquet(io.BytesIO(), ["value"], rows)


def test_a_file_names_a_number_that_is_not_finite(
    here: Deployment, tmp_path: Path
) -> None:
    here.job("a", "SUCCEEDED", 1)
    here.succeeded("a", 0, {"mean": math.nan})
    assert 0 == here.run("results", "a", "--to", str(tmp_path / "a.jsonl")).exit_code
    row = json.loads((tmp_path / "a.jsonl").read_text(), parse_constant=pytest.fail)
    assert "NaN" == row["value.mean"]


def test_a_result_of_none_is_null(here: Deployment) -> None:
    here.job("a", "SUCCEEDED", 1)
    here.succeeded("a", 0, None)
    here.table.rows.pop((JobRef("default", "a").pk, "RESULT#00000000"))
    assert [None] == [line["value"] for line in printed(here.run("results", "a"))]


def test_a_result_that_does_not_match_its_hash_is_refused(here: Deployment) -> None:
    here.job("a", "SUCCEEDED", 1)
    here.succeeded("a", 0, 1)
    here.table.rows[JobRef("default", "a").pk, "RESULT#00000000"]["value"] = "2"
    done = here.run("results", "a")
    assert (1, "") == (done.exit_code, done.stdout)
    assert "error runtime.state.checkpoint_corrupt" in done.stderr


@pytest.mark.parametrize("form", [(), ("--follow",), ("-o", "json")])
def test_a_lost_result_does_not_hide_the_others(
    here: Deployment, form: tuple[str, ...]
) -> None:
    here.job("a", "SUCCEEDED", 3)
    for chunk in range(3):
        here.succeeded("a", chunk, chunk)
    here.table.rows[JobRef("default", "a").pk, "RESULT#00000001"]["value"] = "9"
    done = here.run("results", "a", *form)
    found = json.loads(done.stdout) if "json" in form else printed(done)
    assert [0, 2] == [line["value"] for line in found]
    assert 1 == done.exit_code
    message = "The stored result of chunk a/1"
    assert "runtime.state.checkpoint_corrupt" in done.stderr
    assert message in done.stderr
    assert "have ended" not in done.stderr


@pytest.mark.parametrize("value", ["x" * (5 * 1024 * 1024), 10**100])
def test_a_result_of_the_maximum_size_is_printed(
    here: Deployment, value: object
) -> None:
    here.job("a", "SUCCEEDED", 1)
    here.succeeded("a", 0, value)
    assert [value] == [line["value"] for line in printed(here.run("results", "a"))]


def test_a_result_that_workers_would_refuse_is_refused(here: Deployment) -> None:
    here.job("a", "SUCCEEDED", 1)
    here.succeeded("a", 0, json.loads("[" * 199 + "]" * 199))
    done = here.run("results", "a")
    assert (1, "") == (done.exit_code, done.stdout)
    assert "error runtime.record.unreadable: The result of a/0" in done.stderr


def test_an_ended_job_without_all_results_gives_no_advice_to_wait(
    here: Deployment,
) -> None:
    here.job("a", "CANCELLED", 3)  # while it was submitted: two were not written
    here.chunk("a", 0, "CANCELLED")
    done = here.run("results", "a")
    assert "1 of 3 chunks have ended; the job is CANCELLED" in done.stderr
    assert "--follow" not in done.stderr


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"cancelled_by": "me", "cancel_code": "job.cancel.requested"}, None),
        ({"stopped_code": "job.tolerance.exceeded"}, None),
        ({"stopped_code": "job.tolerance.exceeded"}, "tool.shop.busy"),
    ],
)
def test_a_cancelled_chunk_has_its_own_code_or_that_of_its_job(
    here: Deployment, facts: dict[str, str], code: str | None
) -> None:
    here.job("a", "PARTIAL", 1, **facts)
    here.chunk("a", 0, "CANCELLED", **({"error_code": code} if code else {}))
    expected = code or list(facts.values())[-1]
    assert expected in here.run("results", "a", "-o", "table").stdout
    assert expected == printed(here.run("results", "a"))[0]["error_code"]


def test_results_are_one_document_with_output_json(here: Deployment) -> None:
    here.job("a", "SUCCEEDED", 1)
    here.succeeded("a", 0, 7)
    assert 7 == here.document("results", "a")[0]["value"]
    assert "SUCCEEDED  chunk 0  7" in here.run("results", "a", "-o", "table").stdout


def test_following_an_ended_job_prints_all_and_ends(here: Deployment) -> None:
    here.job("a", "PARTIAL", 2)
    here.chunk("a", 0, "DEAD", error_code="x.y.z")
    here.succeeded("a", 1, 7)
    here.letter("a", 0)
    done = here.run("results", "a", "--follow")
    assert (5, [0, 1]) == (done.exit_code, [line["chunk"] for line in printed(done)])


def test_follow_requires_jsonl(here: Deployment) -> None:
    here.job("a", "RUNNING", 1)
    assert 2 == here.run("results", "a", "--follow", "-o", "json").exit_code
    assert 2 == here.run("results", "a", "--to", "a.csv", "-o", "json").exit_code


async def test_a_follower_finds_each_chunk_once_and_again_after_another_end(
    here: Deployment,
) -> None:
    here.job("a", "RUNNING", 2)
    here.succeeded("a", 0, 1)
    here.chunk("a", 1, "RUNNING")
    rt, pk = here.runtime(Settings()), JobRef("default", "a").pk
    follower = Follower(rt)

    async def poll() -> list[tuple[int, str]]:
        job = await rt.jobs.read(JobRef("default", "a"))
        assert job is not None
        found = [ended.chunk async for ended in follower.newly_ended(job)]
        return [(chunk.ref.chunk, str(chunk.status)) for chunk in found]

    assert [] == await poll()
    here.table.add(pk, "TALLY", ended_chunks={0})
    assert [(0, "SUCCEEDED")] == await poll()
    here.chunk("a", 1, "DEAD", error_code="x.y.z")
    here.table.add(pk, "TALLY", ended_chunks={0, 1})
    assert [(1, "DEAD")] == await poll()
    here.job("a", "RUNNING", 2, gen=2)
    here.table.add(pk, "TALLY", ended_chunks={0})
    assert [] == await poll()
    here.succeeded("a", 1, 2)
    here.job("a", "SUCCEEDED", 2, gen=2)
    assert [(1, "SUCCEEDED")] == await poll()


@pytest.fixture
def certified(here: Deployment) -> Deployment:
    here.job("a", "SUCCEEDED", 1, **here.certificate("a", chunks=1))
    here.succeeded("a", 0, 1)
    return here


def test_artifacts_and_certificate_are_saved(
    run: Run, certified: Deployment, tmp_path: Path
) -> None:
    certified.bucket.stored[f"{ARTIFACTS}/report.md"] = b"# report"
    done = run("results", "a", "--save", str(tmp_path / "out"))
    assert 0 == done.exit_code
    assert b"# report" == (tmp_path / "out" / "report.md").read_bytes()
    proof = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert ("a", 1) == (proof["job"], proof["chunks"])


@pytest.mark.parametrize(
    ("status", "join_error", "warned"),
    [
        ("SUCCEEDED", "", False),
        ("PARTIAL", "", False),
        ("FAILED", "user.stage.failed", True),
        ("CANCELLED", "", True),
    ],
)
def test_artifacts_of_a_failed_join_are_saved_with_a_warning(
    run: Run,
    certified: Deployment,
    tmp_path: Path,
    *,
    status: str,
    join_error: str,
    warned: bool,
) -> None:
    own = certified.certificate("a", chunks=1, join_error=join_error)
    certified.job("a", status, 1, **own)
    certified.bucket.stored[f"{ARTIFACTS}/report.md"] = b"# report"
    done = run("results", "a", "--save", str(tmp_path))
    assert warned == ("may not match the certificate" in done.stderr)
    assert f"saved {tmp_path / 'report.md'}" in done.stderr.replace("\n", "")


def test_an_artifact_larger_than_the_buffer_is_saved(
    run: Run, certified: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified.bucket.stored[f"{ARTIFACTS}/report.md"] = b"# a long report"
    held = Bucket.get

    async def get(bucket: Bucket, key: str, **how: Any) -> bytes:
        if key.startswith(ARTIFACTS):
            raise PermanentError("It is too large.", code="runtime.object.too_large")
        return await held(bucket, key, **how)

    monkeypatch.setattr(Bucket, "get", get)
    done = run("results", "a", "--save", str(tmp_path))
    assert 0 == done.exit_code
    assert b"# a long report" == (tmp_path / "report.md").read_bytes()


def test_an_invalid_folder_is_refused(
    run: Run, certified: Deployment, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file" / "out", "no\0path"):
        done = run("results", "a", "--save", str(folder))
        assert 2 == done.exit_code
        assert "cannot be written" in done.stderr or "null" in done.output


@pytest.mark.attack("links")
@pytest.mark.parametrize("name", ["../evil", "/etc/evil", ".hidden", "-rf", "a/b", ""])
def test_a_name_that_leads_out_of_the_folder_is_not_saved(
    run: Run, certified: Deployment, tmp_path: Path, name: str
) -> None:
    certified.bucket.stored[f"{ARTIFACTS}/{name}"] = b"evil"
    run("results", "a", "--save", str(tmp_path / "out"))
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert ["certificate.json"] == files


@pytest.mark.attack("links")
def test_a_link_in_the_folder_is_replaced_and_not_followed(
    run: Run, certified: Deployment, tmp_path: Path
) -> None:
    certified.bucket.stored[f"{ARTIFACTS}/report.md"] = b"# report"
    private = tmp_path / "private"
    private.write_bytes(b"mine")
    (tmp_path / "out").mkdir()
    for name in ("report.md", "certificate.json"):
        (tmp_path / "out" / name).symlink_to(private)

    assert 0 == run("results", "a", "--save", str(tmp_path / "out")).exit_code
    assert b"mine" == private.read_bytes()
    assert b"# report" == (tmp_path / "out" / "report.md").read_bytes()


def test_an_artifact_named_like_the_certificate_is_not_overwritten(
    run: Run, certified: Deployment, tmp_path: Path
) -> None:
    certified.bucket.stored[f"{ARTIFACTS}/certificate.json"] = b"theirs"
    run("results", "a", "--save", str(tmp_path))
    assert b"theirs" == (tmp_path / "certificate.json").read_bytes()
    assert (tmp_path / "a.certificate.json").exists()


def test_a_comparison_counts_unpriced_calls_and_warns_of_other_rows(
    here: Deployment,
) -> None:
    for job, row in (("left", "1" * 64), ("right", "2" * 64)):
        here.job(job, "SUCCEEDED", 1, finished_at=SETTLED, pipeline=f"{job}-toy")
        here.succeeded(job, 0, "same")
        ref = JobRef("default", job).chunk(0)
        paid = {"payload_sha256": row, "call_usage": {"paid": {"fax": [7]}}}
        here.table.rows[ref.pk, ref.sk] |= paid
    said = " ".join(here.run("jobs", "diff", "left", "right").stderr.split())
    assert "paid: 7 calls (no price known) and 7 calls (no price known)" in said
    assert "USD" not in said
    assert "different pipelines, left-toy and right-toy" in said
    assert "1 chunk had another row in the other job" in said
    assert "warning" not in here.run("jobs", "diff", "left", "left").stderr
