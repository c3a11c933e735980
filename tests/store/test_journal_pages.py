from __future__ import annotations

from base64 import b64encode
from random import Random

from piecework.aws.objects import INLINE_LIMIT
from piecework.settings import Settings
from piecework.store.checkpoints import read_work
from piecework.store.journal import CallJournal
from tests.store.conftest import Store, Stutter
from tests.unit.piecework.fakes import Log


async def journal(store: Store, *, fence: int = 4) -> CallJournal:
    claim = await store.running(fence=fence)
    return CallJournal(
        store.table,
        store.objects,
        claim,
        Settings(),
        store.clock,
        Log(),  # type: ignore[arg-type]
    )


async def test_what_claims_remember_is_found_by_the_next(store: Store) -> None:
    for fence in (4, 5):
        kept = await journal(store, fence=fence)
        await kept.record(f"key{fence}", f"{fence}")
        await kept.close(keep=True)
    work = await read_work(store.table, store.chunk)
    later = await journal(store, fence=6)
    await later.load(work.calls)
    assert (later.recall("key4"), later.recall("key5")) == ("4", "5")


async def test_a_page_that_is_there_is_never_overwritten(store: Store) -> None:
    for word in ("first", "second"):
        kept = await journal(store)
        await kept.record("key", word)
        await kept.close(keep=True)
    (page,) = (await read_work(store.table, store.chunk)).calls
    assert page.read_answers() == {"key": "first"}


async def test_a_page_whose_answer_was_lost_was_written_once(store: Store) -> None:
    store.client = Stutter(store.client)
    kept = await journal(store)
    await kept.record("key", "1")
    await kept.close(keep=True)
    assert len((await read_work(store.table, store.chunk)).calls) == 1


async def test_the_largest_pages_fit_into_items(store: Store) -> None:
    kept = await journal(store)
    for n in range(12):
        # It hardly shrinks: each character is one of 64.
        noise = b64encode(Random(n).randbytes(INLINE_LIMIT)).decode()[:INLINE_LIMIT]
        kept._pending[f"{n:064d}"] = noise
    await kept.close(keep=True)
    pages = (await read_work(store.table, store.chunk)).calls
    assert sum(page.count for page in pages) == 12
