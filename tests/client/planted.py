"""Batches of a tenant, as a collector leaves them, for commands that show them."""

from __future__ import annotations

from piecework.domain import keys
from piecework.domain.batch import Member, PlannedRow, pack_members
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.runtime import Runtime
from piecework.store.batches import Batches

KEY = "0123456789abcdef"
#: Seconds until the calls go direct.
WITHIN_S = 7_200.0


async def plant(rt: Runtime, job: str) -> None:
    """Plant an open batch of chunk 0, an ended one, and what is gathered of chunk 1."""
    found, now = Batches(rt.table, rt.objects, rt.clock), rt.clock()
    place = rt.settings.tenant, KEY
    await found.need(place, now + 300, model="mini", provider="openai")
    fence = await found.take(place, "w1", 60.0)
    assert fence is not None
    until = iso(now + WITHIN_S)
    for number, batch in enumerate(("batch_abc", "batch_old")):
        facts = {
            "tenant": place[0],
            "digest": keys.sha256(batch.encode())[:40],
            "model": "mini",
            "provider": "openai",
            "rows": 3,
            "members": pack_members([Member(job, 0, 1, 1, 1 + number, 3)]),
            "planned_at": iso(now - 600),
            "tried_at": iso(now - 600),
            "until": until,
        }
        row = PlannedRow(facts)
        assert await found.plan(place, "w1", fence, facts)
        assert await found.created(place, row, batch, now + 120)
        await found.note(place, row, now + 120, polls=2, answered=1, failed=0)
        if batch == "batch_old":
            (ended,) = [each for each in await found.open(place) if each.id == batch]
            await found.end(place, ended, "ENDED", answered=3)
    await found.leave(place, "w1", fence, now + 120, [900])
    asked = {
        "tenant": place[0],
        "job": job,
        "chunk": 1,
        "gen": 1,
        "fence": 1,
        "part": 1,
        "rows": 2,
        "size": 99,
        "asked_at": iso(now),
        "until": until,
    }
    sk = keys.asked_sk(iso(now), job, 1, 1, 1)
    pk = keys.batches_pk(*place)
    await rt.table.put(rt.table.item_write("Put", pk, sk, item=asked))


async def let_wait(rt: Runtime, ref: JobRef) -> None:
    """Let the first two chunks of a job wait for batches."""
    for chunk in (0, 1):
        waiting = {"status": "WAITING", "batch": "batch", "at": iso(rt.clock() + 9e3)}
        update = "SET #status = :status, blocked_on = :batch, retry_at = :at"
        at = ref.chunk(chunk)
        write = rt.table.item_write(
            "Update", at.pk, at.sk, update=update, values=waiting
        )
        await rt.table.update(write)
