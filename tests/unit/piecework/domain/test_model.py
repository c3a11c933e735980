from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.domain import keys
from piecework.domain.model import (
    Chunk,
    ChunkRef,
    ChunkStatus,
    Job,
    JobRef,
    JobStatus,
    iso,
    moment,
)
from piecework.errors import PermanentError

MOMENTS = st.integers(0, 4_000_000_000_000).map(lambda ms: ms / 1000)


@given(MOMENTS, MOMENTS)
def test_moments_as_text_sort_as_they_come(one: float, other: float) -> None:
    assert len(iso(one)) == len(iso(other)) == 24
    if abs(one - other) >= 0.002:
        assert (one < other) == (iso(one) < iso(other))


@given(MOMENTS)
def test_a_moment_reads_back_to_the_millisecond_and_never_later(at: float) -> None:
    assert -0.0011 < moment(iso(at)) - at <= 0.000001


@given(st.floats(0, 4_000_000_000))
def test_a_moment_is_written_as_the_calendar_has_it(at: float) -> None:
    calendar = datetime.fromtimestamp(at, UTC)
    assert calendar.isoformat(timespec="milliseconds")[:-6] + "Z" == iso(at)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (1.9999994, "1970-01-01T00:00:01.999Z"),
        (1.9999996, "1970-01-01T00:00:02.000Z"),
    ],
)
def test_what_rounds_up_to_a_second_is_in_the_next(at: float, text: str) -> None:
    assert text == iso(at)


def test_a_moment_reads_without_a_calculator() -> None:
    assert iso(1_700_000_000.5) == "2023-11-14T22:13:20.500Z"


def test_which_states_are_ends() -> None:
    ends = {s for s in ChunkStatus if s.terminal}
    assert ends == {ChunkStatus.SUCCEEDED, ChunkStatus.DEAD, ChunkStatus.CANCELLED}
    over = {s for s in JobStatus if s.ended}
    assert {JobStatus.SUCCEEDED, JobStatus.PARTIAL, JobStatus.FAILED} <= over
    assert not over & {JobStatus.SUBMITTING, JobStatus.RUNNING, JobStatus.FINALIZING}


def test_a_chunk_knows_its_job_and_its_place() -> None:
    ref = JobRef("acme", "j").chunk(300)
    assert ref.of == JobRef("acme", "j")
    assert (ref.pk, ref.sk) == ("T#acme#J#j#G#0001", "CHUNK#00000300")
    assert str(ref) == "j/300"


def test_the_join_is_called_by_its_name() -> None:
    ref = ChunkRef("acme", "j", keys.JOIN_CHUNK)
    assert ref.is_join
    assert str(ref) == "j/join"


def test_an_unclaimed_chunk_has_no_fence_and_no_attempts() -> None:
    chunk = Chunk.read(ChunkRef("a", "j", 0), {"status": "PENDING", "gen": 1})
    assert (chunk.fence, chunk.attempts, chunk.renewal_mark) == (0, 0, (0, 0))


def test_a_chunk_is_read_from_its_item() -> None:
    item = {"status": "RUNNING", "gen": 2, "fence": 5, "attempts": 3, "renewals": 7}
    chunk = Chunk.read(ChunkRef("a", "j", 0), item)
    assert (chunk.status, chunk.gen) == (ChunkStatus.RUNNING, 2)
    assert (chunk.attempts, chunk.renewal_mark) == (3, (5, 7))


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(
        PermanentError, match="chunk j/0 has a missing or malformed 'status'"
    ):
        Chunk.read(ChunkRef("a", "j", 0), {"status": "LOST", "gen": 1})


def test_a_job_is_read_from_its_item() -> None:
    item = {"status": "RUNNING", "gen": 2, "chunks": 5, "pipeline": "review"}
    job = Job.read(JobRef("a", "j"), item)
    assert (job.status, job.gen, job.chunks) == (JobStatus.RUNNING, 2, 5)
