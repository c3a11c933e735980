"""Guarantee: a program submits rows, awaits typed results, and operates its jobs.

The tests are in one file, because all use its pipeline and its deployment.
"""

from __future__ import annotations

import asyncio
import csv
import json
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyarrow import parquet
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage, TransientError
from piecework.client import Client, Done, Failed
from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import (
    NotFoundError,
    PermanentError,
    PieceworkError,
    UsageError,
    WaitTimeoutError,
)
from piecework.settings import Settings
from piecework_orchestrator.dead_letters.closing import RedriveOptions
from piecework_orchestrator.dead_letters.redrive import Edit
from piecework_simulation.in_process import InProcessAws, worker_beside
from tests.unit.orchestrator.cli.deployment import Deployment as Tables
from tests.unit.orchestrator.cli.deployment import Rows
from tests.unit.virtual import run_virtually


class Text(BaseModel):
    """A payload."""

    text: str


class Count(BaseModel):
    """A result."""

    words: int


#: Texts that cannot be counted at present.
broken: set[str] = set()
#: The event of each test for which the text "hold" waits.
holds: list[asyncio.Event] = []


async def count(ctx: Context[Text]) -> Count:
    """Count the words of a text."""
    if ctx.payload.text == "hold":
        await holds[-1].wait()
    if ctx.payload.text in broken:
        raise PermanentError("this text cannot be counted")
    return Count(words=len(ctx.payload.text.split()))


words = Pipeline("words", payload=Text, stages=[Stage(count)])


@dataclass
class Deployment:
    """A deployment in this process."""

    aws: InProcessAws
    client: Client
    pipelines: dict[str, Pipeline] = field(default_factory=lambda: {"words": words})

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        """Run a worker."""
        async with worker_beside(self.aws, self.pipelines, [__name__]):
            yield


@pytest.fixture
async def deployment() -> AsyncIterator[Deployment]:
    broken.clear()
    holds.append(asyncio.Event())
    aws = InProcessAws(Settings(receive_wait_s=1, cancel_poll_s=0.2))
    async with Client(runtime=aws.runtime(), actor="tester") as client:
        yield Deployment(aws, client)


async def test_rows_become_typed_results_and_errors(deployment: Deployment) -> None:
    broken.add("three of them")

    async def rows() -> AsyncIterator[Text | dict[str, Any]]:
        yield Text(text="one")
        yield {"text": "two words"}
        yield {"text": "three of them"}

    job = await deployment.client.submit(words, rows(), id="job-1")
    async with deployment.worker():
        items = {item.chunk: item async for item in job.results()}

    assert items[0] == Done(0, "row 1", Count(words=1))
    assert items[1] == Done(1, "row 2", Count(words=2))
    failed = items[2]
    assert isinstance(failed, Failed)
    assert (failed.status, failed.error.code) == ("DEAD", "runtime.stage.permanent")
    assert failed.error.message == "this text cannot be counted"
    assert failed.error.stage == "count"
    letters, sk = job.rt.dead_letters, keys.dead_letter_sk(2, 1)
    damage = letters.item_write("Update", job.ref.pk, sk, update="REMOVE #state")
    await letters.update(damage)
    damaged = {item.chunk: item async for item in job.results()}[2]
    assert isinstance(damaged, Failed)
    assert damaged.error.code == "runtime.stage.permanent"
    with pytest.raises(UsageError, match="'join' is not a chunk number"):
        await job.chunk(cast("Any", "join"))
    view = await job.view()
    assert (view.ended, view.succeeded, view.dead_letters) == (True, False, 1)
    assert view.counts == {"DEAD": 1, "SUCCEEDED": 2}


async def test_a_result_is_seen_while_another_chunk_still_runs(
    deployment: Deployment,
) -> None:
    job = await deployment.client.submit(words, [{"text": "hold"}, {"text": "a b"}])
    async with deployment.worker():
        results = job.results()
        assert await anext(results) == Done(1, "row 2", Count(words=2))
        with pytest.raises(WaitTimeoutError):
            await job.wait(timeout=0.05)
        for wrong in (True, -1.0, float("nan"), "soon"):
            with pytest.raises(UsageError, match="not a span of time"):
                await job.wait(timeout=wrong)
        holds[-1].set()
        assert await anext(results) == Done(0, "row 1", Count(words=1))
        assert (await job.wait(timeout="30s")).succeeded


class SlowRows(Rows):
    """A table that answers after the latency of AWS."""

    LATENCY_S = 0.03

    async def get(self, pk: str, sk: str) -> dict[str, Any] | None:
        await asyncio.sleep(self.LATENCY_S)
        return await super().get(pk, sk)

    async def query(
        self, pk: str, prefix: str = "", **options: Any
    ) -> AsyncIterator[dict[str, Any]]:
        await asyncio.sleep(self.LATENCY_S)
        async for row in super().query(pk, prefix, **options):
            yield row


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.2, 0.49, 3.7])
def test_the_first_of_1000_results_is_seen_within_a_second(after_s: float) -> None:
    async def seconds_until_seen() -> float:
        tables, loop = Tables(SlowRows()), asyncio.get_running_loop()
        tables.job("a", "RUNNING", 1_000)
        async with Client(runtime=tables.runtime(Settings())) as client:
            first = asyncio.create_task(anext(client.job("a").results()))
            await asyncio.sleep(after_s)
            tables.succeeded("a", 700, "done")
            chunk = JobRef("default", "a").chunk(700)
            tables.table.add(chunk.pk, "TALLY", ended_chunks={700})
            settled = loop.time()
            assert await first == Done(700, "chunk 700", "done")
            return loop.time() - settled

    assert run_virtually(seconds_until_seen()) <= 1.0


async def test_a_repeated_submit_finds_the_job(deployment: Deployment) -> None:
    first = await deployment.client.submit(words, [Text(text="a")], id="job-1")
    again = await deployment.client.submit(words, [Text(text="a")], id="job-1")
    assert (first.created, again.created) == (True, False)
    with pytest.raises(UsageError) as refused:
        await deployment.client.submit(words, [Text(text="b")], id="job-1")
    assert refused.value.code == "submit.token.conflict"


@pytest.mark.parametrize(
    ("first", "again", "message"),
    [
        ("2h", "120m", ""),
        (timedelta(hours=2), "2h", ""),
        ("2h", None, ""),
        ("2100-01-01T00:00:00Z", datetime(2100, 1, 1, tzinfo=UTC), ""),
        ("2h", "3h", "its deadline is 7200s, not 10800s: nothing was changed"),
        (None, "3h", "its deadline is none, not 10800s"),
        ("2h", "2100-01-01T00:00:00Z", "not 2100-01-01T00:00:00"),
    ],
)
async def test_a_repeated_submit_cannot_change_the_deadline(
    deployment: Deployment, first: Any, again: Any, message: str
) -> None:
    submit, rows = deployment.client.submit, [Text(text="a")]
    job = await submit(words, rows, id="job-1", deadline=first)
    before = (await job.facts()).document.get("deadline_at")
    if not message:
        assert not (await submit(words, rows, id="job-1", deadline=again)).created
    else:
        with pytest.raises(UsageError, match=message) as refused:
            await submit(words, rows, id="job-1", deadline=again)
        assert refused.value.code == "submit.token.conflict"
    assert before == (await job.facts()).document.get("deadline_at")


async def test_a_redrive_after_a_fix_completes_the_job(deployment: Deployment) -> None:
    broken.add("b")
    rows = [Text(text="a"), Text(text="b")]
    job = await deployment.client.submit(words, rows)
    async with deployment.worker():
        assert (await job.wait(timeout=30)).status is JobStatus.PARTIAL
        broken.clear()
        assert (await job.redrive("fixed", code="runtime.*")).count == 1
        assert (await job.wait(timeout=30)).succeeded
    untyped = deployment.client.job(job.id)
    values = [item.value async for item in untyped.results() if isinstance(item, Done)]
    assert values == [{"words": 1}, {"words": 1}]


INVALID = [{"text": "a"}, {"txt": "b c"}, {"text": 5}, {"text": "d e f"}]


async def test_rows_that_do_not_fit_create_no_job_and_are_all_named(
    deployment: Deployment,
) -> None:
    with pytest.raises(UsageError) as refused:
        await deployment.client.submit(words, INVALID, id="none")
    assert "2 rows of the rows are refused" in refused.value.message
    assert "'txt' (did you mean 'text'?)" in refused.value.message
    assert "Row 3 is not a Text: text: Input should be" in refused.value.message
    with pytest.raises(NotFoundError):
        await deployment.client.job("none").facts()
    with pytest.raises(UsageError, match="refuse, skip, dead"):
        await deployment.client.submit(words, INVALID, invalid="ignore")


async def test_rows_that_are_left_out_are_named_by_the_job_and_its_certificate(
    deployment: Deployment,
) -> None:
    job = await deployment.client.submit(words, INVALID, invalid="skip")
    assert ["row 2" in line.lower() for line in job.refused] == [True, False]
    async with deployment.worker():
        view = await job.wait(timeout=30)
    named = {"left_out_rows": 2, "left_out": ["row 2", "row 3"]}
    assert (view.succeeded, view.chunks) == (True, 2)
    record = await job.rt.jobs.read(job.ref)
    assert record is not None
    certificate = json.loads(await job.rt.objects.get(record.certificate))
    for found in (view.document, certificate):
        assert named == {name: found[name] for name in named}


async def test_a_refused_row_is_a_dead_letter_that_a_patch_corrects(
    deployment: Deployment,
) -> None:
    job = await deployment.client.submit(words, INVALID, invalid="dead")
    async with deployment.worker():
        view = await job.wait(timeout=30)
        assert view.counts == {"DEAD": 2, "SUCCEEDED": 2}
        letter = await job.dead_letter(1)
        assert letter["error_code"] == "runtime.payload.invalid"
        assert "'txt' (did you mean 'text'?)" in letter["error"]
        await job.redrive("as it is")
        assert (await job.wait(timeout=30)).counts == {"DEAD": 2, "SUCCEEDED": 2}
        edit = Edit({"text": "b c", "txt": None})
        await job.redrive("corrected", RedriveOptions(edit=edit))
        assert (await job.wait(timeout=30)).succeeded
        results = {item.chunk: item async for item in job.results()}
    assert results[1] == Done(1, "row 2", Count(words=2))


async def test_a_cancelled_job_is_retried_and_not_resumed(
    deployment: Deployment,
) -> None:
    job = await deployment.client.submit(words, [Text(text="a"), Text(text="hold")])
    async with deployment.worker():
        results = job.results()
        await anext(results)
        await job.cancel("not needed")
        last = await anext(results)
        assert isinstance(last, Failed)
        assert (last.status, last.error.code) == ("CANCELLED", "job.cancel.requested")
        with pytest.raises(UsageError, match="not paused") as refused:
            await job.resume("again")
        assert "jobs retry" in refused.value.next_step
        holds[-1].set()
        assert await job.retry("needed after all") == 1
        assert (await job.wait(timeout=30)).succeeded


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([], "input.rows.empty"),
        ([{"text": 5}], "input.payload.invalid"),
        ([{"texts": "a"}], "input.columns.unknown"),
        ([Count(words=1)], "input.payload.invalid"),
        (["a"], "input.payload.invalid"),
        ({"text": "a"}, "cli.usage.invalid"),
        (Text(text="a"), "cli.usage.invalid"),
        (5, "cli.usage.invalid"),
        ("missing.jsonl", "input.source.not_found"),
    ],
)
async def test_invalid_rows_create_no_job(
    deployment: Deployment, rows: Any, code: str
) -> None:
    with pytest.raises(PieceworkError) as refused:
        await deployment.client.submit(words, rows, id="job-1")
    assert refused.value.code == code
    assert refused.value.next_step
    with pytest.raises(NotFoundError):
        await deployment.client.job("job-1").view()


@pytest.mark.parametrize(
    "deadline",
    [
        *("tomorrow", 3600, timedelta(-1), datetime(2001, 1, 1)),  # noqa: DTZ001
        *("2001-01-01T00:00:00Z", "9999-12-31T23:59:59-05:00", "10000-01-01T00:00Z"),
        *("99999999d", timedelta(days=4_000_000), timedelta.max, timedelta.min),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    ],
)
async def test_a_deadline_that_cannot_hold_is_refused(
    deployment: Deployment, deadline: Any
) -> None:
    with pytest.raises(UsageError) as refused:
        await deployment.client.submit(words, [Text(text="a")], deadline=deadline)
    assert refused.value.code == "cli.usage.invalid"
    job = await deployment.client.submit(words, [Text(text="a")])
    with pytest.raises(UsageError) as refused:
        await job.retry("again", deadline=deadline)
    assert refused.value.code == "cli.usage.invalid"


async def test_the_last_deadline_is_that_of_the_calendar(
    deployment: Deployment,
) -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    job = await deployment.client.submit(words, [Text(text="a")], deadline=last)
    assert (await job.view()).document["deadline_at"] == "9999-12-31T23:59:59.000Z"


async def test_a_deadline_is_kept_with_its_zone(deployment: Deployment) -> None:
    rows = [Text(text="a")]
    job = await deployment.client.submit(words, rows, deadline=timedelta(hours=2))
    document = (await job.view()).document
    created = datetime.fromisoformat(document["created_at"])
    until = datetime.fromisoformat(document["deadline_at"])
    assert timedelta(minutes=119) < until - created <= timedelta(hours=2)


async def test_results_are_exported_in_each_form(
    deployment: Deployment, tmp_path: Path
) -> None:
    broken.add("b")
    job = await deployment.client.submit(words, [Text(text="a"), Text(text="b")])
    async with deployment.worker():
        await job.wait(timeout=30)

    assert await job.export(tmp_path / "out.jsonl") == 2
    lines = (tmp_path / "out.jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[0]) == {
        "chunk": 0,
        "label": "row 1",
        "status": "SUCCEEDED",
        "value.words": 1,
    }
    await job.export(str(tmp_path / "out.csv"))
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["value.words"] for row in rows] == ["1", ""]
    assert rows[1]["error_code"] == "runtime.stage.permanent"
    await job.export(tmp_path / "out.parquet")
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.column("value.words").to_pylist() == [1, None]
    with pytest.raises(UsageError, match=r"out\.xml"):
        await job.export(tmp_path / "out.xml")


def test_a_script_needs_no_loop() -> None:
    async def unready(ctx: Context[Text]) -> int:
        if ctx.attempt == 1:
            raise TransientError("not yet")
        return len(ctx.payload.text)

    lengths = Pipeline("lengths", payload=Text, stages=[Stage(unready)])
    aws = InProcessAws(Settings(receive_wait_s=1))
    with Client.sync(runtime=aws.runtime()) as client:
        job = client.submit(lengths, [Text(text="ab")], id="job-1")
        assert job.view().counts == {"PENDING": 1}
        assert job.cancel("enough").status in {
            JobStatus.CANCELLING,
            JobStatus.CANCELLED,
        }
        with pytest.raises(NotFoundError):
            client.job("job-2").view()


@dataclass
class Display:
    """What a notebook displays; each update replaces the page."""

    pages: list[dict[str, str]] = field(default_factory=list)

    def __call__(self, page: dict[str, str], **_: Any) -> Display:
        self.pages.append(page)
        return self

    update = __call__


@pytest.mark.parametrize("place", ["notebook", "terminal", "log"])
async def test_a_wait_shows_its_progress(
    deployment: Deployment,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken.add("b")
    display = Display()
    if place == "notebook":
        shell = SimpleNamespace(kernel=object())
        notebook = SimpleNamespace(get_ipython=lambda: shell)
        monkeypatch.setitem(sys.modules, "IPython", notebook)
        display_module = SimpleNamespace(display=display)
        monkeypatch.setitem(sys.modules, "IPython.display", display_module)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: place == "terminal")
    job = await deployment.client.submit(words, [{"text": t} for t in "ab"], id="job-1")
    async with deployment.worker():
        await job.wait(timeout=30, progress=True)

    text = "job-1 2/2 chunks PARTIAL  1 dead"
    bar = f"[{'#' * 24}] {text}"
    shown = capsys.readouterr().err
    if place == "notebook":
        html = f'<progress value="2" max="2"></progress> {text}'
        assert display.pages[-1] == {"text/html": html, "text/plain": bar}
    elif place == "terminal":
        assert shown.endswith(f"\r\x1b[K{bar}\n")
    else:
        assert shown.splitlines()[-1] == text


async def test_rows_that_cannot_be_made_create_no_job(deployment: Deployment) -> None:
    def rows() -> Iterator[Text]:
        yield Text(text="a")
        message = "the file is gone"
        raise OSError(message)

    with pytest.raises(OSError, match="gone"):
        await deployment.client.submit(words, rows(), id="job-1")
    with pytest.raises(NotFoundError):
        await deployment.client.job("job-1").view()


async def test_a_status_is_read_in_any_case_and_a_wrong_one_refused(
    deployment: Deployment,
) -> None:
    client = deployment.client
    job = await client.submit(words, [Text(text="a")], id="job-1")
    assert [one.id async for one in client.jobs("running")] == ["job-1"]
    assert [one["chunk"] async for one in job.chunks("pending")] == [0]
    for wrong in (client.jobs("asleep"), job.chunks("running away")):
        with pytest.raises(UsageError, match="not a status"):
            await anext(aiter(wrong))


def test_a_blocking_client_that_is_not_entered_refuses_and_does_not_wait() -> None:
    with pytest.raises(UsageError, match="not connected"):
        list(Client.sync().jobs())


def test_a_traceback_ends_with_code_and_next_step() -> None:
    error = WaitTimeoutError("Job a goes on.", next_step="`piecework jobs watch a`")
    lines = traceback.format_exception(error)
    assert lines[-1] == "cli.wait.timeout; next: `piecework jobs watch a`\n"


async def test_a_client_must_be_entered() -> None:
    with pytest.raises(UsageError, match="not connected"):
        await Client().submit(words, [Text(text="a")])
