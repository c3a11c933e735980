from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any, cast

import pytest

from piecework.aws.objects import INLINE_LIMIT
from piecework.domain.packed import packed
from piecework.domain.rows import CallsRow
from piecework.errors import PermanentError, StoreError
from piecework.settings import Settings
from piecework.store.journal import PAGE_BYTES, CallJournal, take_page
from tests.unit.piecework.fakes import Log
from tests.unit.piecework.store.tables import NOW, Paper, claim, objects, paper
from tests.unit.virtual import run_virtually


def journal(table: Paper, **facts: Any) -> CallJournal:
    settings = Settings(journal_page=3, journal_flush_s=0.25)
    held = claim(**facts)
    return CallJournal(table, objects(), held, settings, lambda: NOW, Log())  # type: ignore[arg-type]


def page_of(**answers: str) -> CallsRow:
    return CallsRow({"answers": packed(answers), "count": len(answers)})


def pages(table: Paper) -> list[dict[str, str]]:
    return [CallsRow(item).read_answers() for item in table.items()]


async def test_a_full_page_is_written_at_once() -> None:
    table = paper()
    kept = journal(table)
    for key in "abc":
        await kept.record(key, f"{key}1")
    assert pages(table) == [{"a": "a1", "b": "b1", "c": "c1"}]
    assert (kept.recall("a"), kept.recall("d")) == ("a1", None)
    await kept.close(keep=True)
    assert len(table.written) == 1


async def test_with_no_linger_a_caller_has_no_answer_that_is_not_stored() -> None:
    table = paper()
    settings = Settings(journal_page=3, journal_flush_s=0)
    kept = CallJournal(table, objects(), claim(), settings, lambda: NOW, Log())  # type: ignore[arg-type]
    await kept.record("a", "1")
    assert pages(table) == [{"a": "1"}]
    await asyncio.gather(kept.record("b", "2"), kept.record("c", "3"))
    assert [each for page in pages(table)[1:] for each in page] == ["b", "c"]


def test_a_lonely_result_waits_for_company_and_no_longer_than_the_linger() -> None:
    async def main() -> None:
        table = paper()
        kept = journal(table)
        await kept.record("a", "1")
        await asyncio.sleep(0.2)
        await kept.record("b", "2")
        assert table.written == []
        await asyncio.sleep(0.06)
        assert pages(table) == [{"a": "1", "b": "2"}]
        await kept.record("c", "3")
        await asyncio.sleep(0.26)
        assert pages(table)[1:] == [{"c": "3"}]

    run_virtually(main())


async def test_the_pages_of_a_claim_have_places_of_their_own() -> None:
    table = paper()
    kept = journal(table, gen=2, fence=5)
    for key in "ab":
        await kept.record(key, "1")
        await kept.flush()
    keys = [actions[0].sk for actions in table.written]
    assert keys == [
        "WORK#00000003#CALLS#0002#0005#0001",
        "WORK#00000003#CALLS#0002#0005#0002",
    ]
    conditions = {actions[0].condition for actions in table.written}
    assert conditions == {"attribute_not_exists(pk)"}


async def test_a_result_that_comes_while_a_page_is_written_begins_the_next() -> None:
    table = paper()
    kept = journal(table)
    await asyncio.gather(*(kept.record(key, "1") for key in "abcd"))
    assert [["a", "b", "c"]] == [list(page) for page in pages(table)]
    for key in "ef":
        await kept.record(key, "1")
    assert [["a", "b", "c"], ["d", "e", "f"]] == [list(page) for page in pages(table)]
    await kept.close(keep=True)
    assert 2 == len(table.written)


def test_what_comes_while_a_page_is_written_lingers_from_then_on() -> None:
    async def main() -> None:
        table = paper()
        kept = journal(table)
        await kept.record("a", "1")
        await asyncio.sleep(0.2)
        await asyncio.gather(*(kept.record(key, "1") for key in "bcd"))
        await asyncio.sleep(0.2)
        assert [{"a": "1", "b": "1", "c": "1"}] == pages(table)
        await asyncio.sleep(0.06)
        assert {"d": "1"} == pages(table)[1]

    run_virtually(main())


def test_a_page_that_could_not_be_written_is_tried_again_after_the_linger() -> None:
    async def main() -> None:
        table = paper(StoreError("away"))
        kept = journal(table)
        await kept.record("a", "1")
        await kept.record("b", "1")
        with pytest.raises(StoreError):
            await kept.record("c", "1")
        assert "1" == kept.recall("c")
        await asyncio.sleep(0.26)
        assert {"a": "1", "b": "1", "c": "1"} == pages(table)[-1]
        await kept.close(keep=True)
        assert 2 == len(table.written)

    run_virtually(main())


async def test_a_close_waits_for_a_page_that_is_being_written() -> None:
    table = paper()
    kept = journal(table)
    filling = [asyncio.create_task(kept.record(key, "1")) for key in "abc"]
    await asyncio.sleep(0)
    assert [] == table.written
    await kept.close(keep=True)
    assert 1 == len(table.written)
    await asyncio.gather(*filling)


async def test_a_finished_chunk_needs_its_last_results_only_if_it_is_deferred() -> None:
    table = paper()
    kept = journal(table)
    await kept.record("a", "1")
    await kept.close(keep=False)
    await asyncio.sleep(0)
    assert table.written == []
    assert kept._timer is None
    # An outage repeats the close, and may make a deferral of the success.
    for keep in (False, True, True):
        await kept.close(keep=keep)
    assert pages(table) == [{"a": "1"}]


async def test_a_large_result_goes_to_the_bucket_and_comes_back() -> None:
    table = paper()
    kept = journal(table)
    large = "x" * (INLINE_LIMIT + 1)
    await kept.record("a", large)
    await kept.record("b", "1")
    await kept.flush()
    (item,) = table.items()
    assert CallsRow(item).read_answers() == {"b": "1"}
    assert set(item["large"]) == {"a"}
    later = journal(paper())
    later.objects = kept.objects
    await later.load([CallsRow(item)])
    assert (later.recall("a"), later.recall("b")) == (large, "1")
    # A small answer needs no bucket.
    cast("Any", kept.objects.client).takes_nothing = True
    for key, value in (("c", "2"), ("d", large)):
        await kept.record(key, value)
    with pytest.raises(StoreError):
        await kept.close(keep=True)
    await kept.close(keep=True, patient=False)
    assert pages(table)[1:] == [{"c": "2"}]


async def test_a_late_large_result_does_not_replace_another() -> None:
    table = paper()
    theirs, ours = journal(table, fence=2), journal(table, fence=1)
    ours.objects = theirs.objects
    large, late = "x" * (INLINE_LIMIT + 1), "y" * (INLINE_LIMIT + 1)
    for kept, value in ((theirs, large), (ours, late)):
        await kept.record("a", value)
        await kept.flush()
        await kept.close(keep=False)
    later = journal(paper())
    later.objects = theirs.objects
    await later.load(map(CallsRow, table.items()[:1]))
    assert later.recall("a") == large


async def test_a_flush_under_way_ends_once_its_results_are_not_kept() -> None:
    table = paper()
    kept = journal(table)
    kept._pending = dict.fromkeys("abcdefghi", "x" * (INLINE_LIMIT - 10))
    flushing = asyncio.create_task(kept.flush())
    await asyncio.sleep(0)
    await kept.close(keep=False)
    await flushing
    assert len(table.written) == 1


async def test_what_earlier_claims_remembered_is_taken_over_and_not_written() -> None:
    table = paper()
    kept = journal(table)
    await kept.load([page_of(a="1"), page_of(b="2"), page_of()])
    await kept.close(keep=True)
    assert (kept.recall("a"), kept.recall("b")) == ("1", "2")
    assert table.written == []


def test_a_flush_in_the_background_that_fails_says_so_and_forgets_nothing() -> None:
    async def main() -> None:
        table = paper(StoreError("gone"))
        kept = journal(table)
        await kept.record("a", "1")
        await asyncio.sleep(0.3)
        assert kept.log.names() == ["journal.flush_failed"]  # type: ignore[attr-defined]
        await asyncio.sleep(0.3)  # no further call is answered
        assert pages(table)[1:] == [{"a": "1"}]

    run_virtually(main())


async def test_two_flushes_at_once_write_everything_once() -> None:
    table = paper()
    kept = journal(table)
    await kept.record("a", "1")
    await kept.record("b", "2")
    await asyncio.gather(kept.flush(), kept.flush())
    assert pages(table) == [{"a": "1", "b": "2"}]
    await kept.close(keep=True)


def test_a_page_holds_as_much_as_an_item_may() -> None:
    half = "x" * (PAGE_BYTES // 2 - 1)
    pending = {"a": half, "b": half, "c": "1"}
    assert list(take_page(pending)) == ["a", "b"]
    assert list(take_page({"a": half, "b": half + "xx"})) == ["a"]


def test_a_page_holds_at_least_one_result() -> None:
    assert next(iter(take_page({"a": "x" * PAGE_BYTES * 2, "b": "1"}))) == "a"
    assert take_page({}) == {}


def test_a_page_is_measured_in_bytes() -> None:
    third = "\u00e9" * (PAGE_BYTES // 6 + 1)
    assert len(take_page(dict.fromkeys("abcd", third))) == 2


async def test_pages_too_large_for_one_item_become_several() -> None:
    table = paper()
    kept = journal(table)
    value = "x" * (INLINE_LIMIT - 10)
    kept._pending = dict.fromkeys("abcdef", value)
    await kept.flush()
    assert [len(page) for page in pages(table)] == [4, 2]


@pytest.mark.parametrize("damage", ["", b"", b"no zlib", zlib.compress(b"1" * 5)[:-1]])
async def test_a_damaged_page_is_named(damage: Any) -> None:
    with pytest.raises(PermanentError) as raised:
        await journal(paper()).load([CallsRow({"answers": damage})])
    assert "runtime.record.unreadable" == raised.value.code


async def test_a_page_that_unpacks_to_more_than_piecework_writes_is_refused() -> None:
    bomb = zlib.compress(b" " * 2**26)
    with pytest.raises(PermanentError, match="too large"):
        await journal(paper()).load([CallsRow({"answers": bomb})])


async def test_the_answers_of_a_page_are_compressed() -> None:
    table = paper()
    kept = journal(table)
    for key in "abc":
        await kept.record(key, json.dumps({"verdict": "the clause is usual " * 50}))
    ((item),) = table.items()
    assert len(item["answers"]) < 300
    assert 3 == len(json.loads(zlib.decompress(item["answers"])))
