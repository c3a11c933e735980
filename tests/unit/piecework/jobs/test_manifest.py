from __future__ import annotations

import hashlib
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.aws.objects import Objects
from piecework.aws.payloads import MOST_BYTES
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.errors import PermanentError
from piecework.jobs.manifest import Entry, _plain, read_manifest, write_manifest
from tests.unit.piecework.bucket import Bucket

ENTRIES = st.builds(
    Entry,
    chunk=st.integers(0, keys.MAX_CHUNK_NUMBER),
    label=st.text(st.characters(exclude_categories=["Cs"])),
    payload=st.builds(
        lambda offset, length: f"p/{offset}+{length}",
        st.integers(0, 10**11),
        st.integers(1, MOST_BYTES),
    ),
    sha256=st.text(st.characters(exclude_categories=["Cs"])),
)


def job(manifest: object, sha256: str = "") -> Job:
    facts = {"status": "RUNNING", "gen": 1, "chunks": 3, "pipeline": "p"}
    where = {"manifest": manifest, "manifest_sha256": sha256}
    return Job.read(JobRef("acme", "j"), facts | where)


@given(ENTRIES)
def test_an_entry_is_one_line_and_reads_back(entry: Entry) -> None:
    line = entry.line()
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert Entry.read(line) == entry


@given(ENTRIES, st.integers(0, 200), st.binary(max_size=2))
def test_the_short_way_to_read_a_line_reads_what_the_long_one_does(
    entry: Entry, at: int, odd: bytes
) -> None:
    plain = replace(entry, sha256="ab" * 32)
    for line in (plain.line().strip(), entry.line().strip()):
        for some in (line, line[:at] + odd + line[at + 1 :]):
            read = _plain(some)
            assert read is None or read == Entry._read_any(some)


@pytest.mark.parametrize(
    ("label", "short"),
    [("7 Fees", True), ("Gebühr § 5", True), ('a "b"', False), ("a\\b", False)],
)
def test_most_lines_are_read_the_short_way(label: str, short: bool) -> None:  # noqa: FBT001 -- the two columns of a table
    entry = Entry(7, label, "p/0+1", "ab" * 32)
    assert short is (_plain(entry.line().strip()) == entry)
    assert entry == Entry.read(entry.line().strip())


@pytest.mark.parametrize(
    "line",
    [
        b'[007, "a", "p/0+1", "%s"]' % (b"ab" * 32),
        b'[7, "a", "p/0+0", "%s"]' % (b"ab" * 32),
        b'[7, "a", "p/0+99999999", "%s"]' % (b"ab" * 32),
        b'[7, "\xff", "p/0+1", "%s"]' % (b"ab" * 32),
        b'[7, "a\x01", "p/0+1", "%s"]' % (b"ab" * 32),
        b'[7, "a", "../p/0+1", "%s"]' % (b"ab" * 32),
    ],
)
def test_a_line_that_is_none_of_ours_is_refused_either_way(line: bytes) -> None:
    assert _plain(line) is None
    with pytest.raises(PermanentError):
        Entry.read(line)


def test_a_label_stays_readable() -> None:
    entry = Entry(0, "Haftung \u00a7 5", "p/0+1", "ab")
    assert entry.line() == '[0, "Haftung \u00a7 5", "p/0+1", "ab"]\n'.encode()


def test_a_new_chunk_takes_its_payload_and_stage_from_the_entry() -> None:
    facts = {"payload": "p/0+1", "payload_sha256": "ab", "stage": "extract"}
    assert Entry(0, "", "p/0+1", "ab").item("extract") == facts
    assert Entry(0, "a", "p/0+1", "ab").item("extract") == facts | {"label": "a"}


async def test_a_manifest_is_named_by_its_content_and_reads_back() -> None:
    bucket = Bucket()
    objects = Objects(bucket, "bucket")  # type: ignore[arg-type]
    entries = [Entry(n, f"label {n}", f"p/{n}+1", "ab") for n in range(3)]
    content = b"".join(entry.line() for entry in entries)
    spool = io.BytesIO(content)
    spool.read()
    key, sha256 = await write_manifest(objects, "acme", "j", spool)
    assert sha256 == hashlib.sha256(content).hexdigest()
    assert key == keys.manifest_key("acme", "j", sha256)
    assert bucket.objects[key] == content
    submitted = job(key, sha256)
    assert [entry async for entry in read_manifest(objects, submitted)] == entries


async def test_an_edited_manifest_is_refused() -> None:
    bucket = Bucket()
    objects = Objects(bucket, "bucket")  # type: ignore[arg-type]
    entries = [Entry(n, f"label {n}", f"p/{n}+1", "ab") for n in range(3)]
    content = b"".join(entry.line() for entry in entries)
    key, sha256 = await write_manifest(objects, "acme", "j", io.BytesIO(content))
    bucket.objects[key] = content.replace(b"p/1+1", b"p/2+1")
    with pytest.raises(PermanentError) as refused:
        [entry async for entry in read_manifest(objects, job(key, sha256))]
    assert refused.value.code == "runtime.payload.corrupt"


def test_two_different_manifests_of_one_job_do_not_overwrite_each_other() -> None:
    assert keys.manifest_key("acme", "j", "a") != keys.manifest_key("acme", "j", "b")
    assert keys.manifest_key("acme", "j", "a") != keys.manifest_key("other", "j", "a")
