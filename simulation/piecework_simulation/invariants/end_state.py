"""Check the final state of a schedule, after all jobs have ended."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from piecework.domain import keys
from piecework.domain.call_usage import CallUsage
from piecework.domain.chunk import Chunk
from piecework.domain.effect import Effect
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.store.checkpoints import Work
from piecework.store.paid import usage_in
from piecework.store.serialization import from_item
from piecework_simulation.coverage import ENDED
from piecework_simulation.engine.world import BUCKET, World
from piecework_simulation.invariants.checker import Invariants
from piecework_simulation.invariants.ownership import foreign_objects
from piecework_simulation.provider import TIER_NANO_USD, ChunkKey

Item = dict[str, Any]
#: A row beside a chunk: its number, and the part that names the row.
WORK_ROW = re.compile(r"WORK#([0-9]{8})#(.+)")


def check_final_state(world: World, invariants: Invariants) -> None:
    """Compare the tables, the objects and the recorded history with each other."""
    for pk, meta in invariants.jobs.items():
        check_job(world, invariants, pk, meta)
    invariants.children.check_end()
    invariants.batches.check_end()
    invariants.letters.check(current_chunks(invariants))
    jobs = [invariants.chunk_name(pk, 0) for pk in invariants.jobs]
    for text in foreign_objects(world.s3.names(BUCKET), jobs):
        invariants.report_violation(text)
    check_effects(world, invariants)
    check_batches(invariants)
    check_bills(world, invariants)


def current_chunks(invariants: Invariants) -> Iterator[Item]:
    """Yield the chunks, and the joins of their job's current generation.

    Each has its tenant, which its row has only in its key.
    """
    for pk, meta in invariants.jobs.items():
        for number, checker in invariants.chunks[pk].items():
            if number != keys.JOIN_CHUNK or checker.item["gen"] == meta["gen"]:
                tenant, _, _ = invariants.chunk_name(pk, number)
                yield {**checker.item, "tenant": tenant}


def check_job(world: World, invariants: Invariants, pk: str, meta: Item) -> None:
    """Check that each chunk has a valid end, and that the certificate agrees."""
    name, checkers = meta["job"], invariants.chunks[pk]
    chunks = {n: b.item for n, b in checkers.items() if n != keys.JOIN_CHUNK}
    for number, item in chunks.items():
        named = invariants.chunk_name(pk, number)
        if not checkers[number].by_hand:  # a person looks after what is left
            invariants.acts.check_end(meta["pipeline"], named, item)
        if item["status"] not in ENDED:
            invariants.report_violation(f"L1: {name}/{number} is {item['status']}")
        check_stages(world, invariants, pk, item)
        if item["status"] == ChunkStatus.DEAD:
            check_dead_letter(world, invariants, pk, item)
        if item["status"] == ChunkStatus.CANCELLED and not item.get(
            "cancelled_at_stage"
        ):
            invariants.report_violation(f"I15: {name}/{number} has no cancel position")
    if not JobStatus(meta["status"]).ended:
        return
    certificate = json.loads(read_object(world, meta["certificate"]))
    succeeded = {
        str(n) for n, i in chunks.items() if i["status"] == ChunkStatus.SUCCEEDED
    }
    format_counts = set(certificate["results"]) | {
        str(m["chunk"]) for m in certificate["missing"]
    }
    if len(format_counts) != meta["chunks"] or set(certificate["results"]) != succeeded:
        invariants.report_violation(f"I12: the certificate of {name} omits chunks")
    if sum(certificate["outcomes"].values()) != meta["chunks"]:
        invariants.report_violation(f"I15: the outcome counts of {name} are wrong")
    for text in succeeded:
        check_result(world, invariants, pk, chunks[int(text)], certificate)


def read_object(world: World, key: str) -> bytes:
    """Return the content of an object; the model never waits, so one step reads it."""
    place = {"Bucket": BUCKET, "Key": key}
    try:
        world.s3.call("get_object", place)["Body"].read().send(None)
    except StopIteration as done:
        content: bytes = done.value
        return content
    raise AssertionError(key)


def check_dead_letter(
    world: World, invariants: Invariants, pk: str, item: Item
) -> None:
    """Check that a dead chunk has a complete dead letter."""
    row = get(
        world,
        world.settings.dead_letters_table,
        pk,
        keys.dead_letter_sk(item["chunk"], item["gen"]),
    )
    needed = ("error_code", "stage", "attempts", "error_history", "compensation")
    if row is None or any(row.get(n) is None for n in needed):
        invariants.report_violation(
            f"I15: {item['job']}/{item['chunk']} has no dead letter: {row}"
        )


def check_stages(world: World, invariants: Invariants, pk: str, item: Item) -> None:
    """Check that each row of a value exists that the chunk names."""
    tenant, job, chunk = invariants.chunk_name(pk, item["chunk"])
    partition = keys.chunk_pk(tenant, job, chunk)
    for stage, entry in item.get("stages", {}).items():
        sk = keys.stage_sk(chunk, stage, entry["fence"])
        table = world.settings.checkpoints_table
        if "finished_at" not in entry and get(world, table, partition, sk) is None:
            invariants.report_violation(f"I5: stage {stage} of {job}/{chunk} is gone")


def check_result(
    world: World, invariants: Invariants, pk: str, item: Item, certificate: Item
) -> None:
    """Check that a succeeded chunk has the result that was certified."""
    chunk = item["chunk"]
    tenant, job, _ = name = invariants.chunk_name(pk, chunk)
    partition = keys.chunk_pk(tenant, job, chunk)
    beside = keys.result_sk(chunk)
    row = get(world, world.settings.checkpoints_table, partition, beside)
    if row is not None and "value" in item:
        invariants.report_violation(f"I5: {item['job']}/{chunk} has two results")
    row = row or {"value": item.get("value", "null")}
    sha256 = row.get("value_sha256") or keys.sha256(row["value"].encode())
    if item.get("result_sha256") != sha256:
        invariants.report_violation(
            f"I5: {item['job']}/{chunk} stores an unexpected result"
        )
    if certificate["results"].get(str(chunk)) != sha256:
        invariants.report_violation(
            f"I5: {item['job']}/{chunk} has a different certified result"
        )
    if "value_at" in row and row["value_at"] not in world.s3.names(BUCKET):
        invariants.report_violation(f"I5: the result of {item['job']}/{chunk} is gone")
    elif invariants.provider is not None:
        invariants.provider.check_value(name, value_of(world, row))


def value_of(world: World, row: Item) -> str:
    """Return the value of a row, which a large one has beside the table."""
    if "value_at" in row:
        return read_object(world, row["value_at"]).decode()
    text: str = row["value"]
    return text


def check_effects(world: World, invariants: Invariants) -> None:
    """Compare the effect ledger with the provider's call records."""
    provider = invariants.provider
    if provider is None:
        return
    rows = {
        row["effect_key"]: row
        for row in scan(world, world.settings.checkpoints_table)
        if "effect_key" in row
    }
    numbers = set(provider.numbered.values())
    for identity, entry in provider.records.items():
        if entry.effect is Effect.PURE or identity in numbers:
            continue  # the number of a stream has the rows of several chunks
        state = rows.get(identity, {}).get("state")
        if state is None:
            invariants.report_violation(
                f"I7: {identity[:12]} was executed without an effect row"
            )
        elif state in {"COMPENSATED", "REFUSED"} and entry.active:
            invariants.report_violation(
                f"I8: {identity[:12]} is {state} and still in effect"
            )


def check_batches(invariants: Invariants) -> None:
    """Compare what the chunks have booked of batches with the provider's book."""
    provider = invariants.provider
    if provider is None:
        return
    provider.batches.close()
    chunks = {
        invariants.chunk_name(pk, number): checker.item
        for pk, checkers in invariants.chunks.items()
        for number, checker in checkers.items()
    }
    invariants.batches.check_book(chunks, provider.batches)


def check_bills(world: World, invariants: Invariants) -> None:
    """Check that no bill has a call more often than it was answered, or less.

    Each execution of a pure call costs money: it is paid, or possibly paid. What a
    lost claim had in flight is known once a later one has made these calls, so only a
    chunk that has succeeded is sure to have them all.
    So is its money, of the calls whose price is known: by the tier that served each.
    The check skips a chunk with a call that may be equal to one of another chunk. Two
    of its claims may each count the one answer.
    """
    provider = invariants.provider
    if provider is None:
        return
    book = provider.batches.book(invariants.batches.known)
    rows: dict[tuple[str, str], dict[str, Item]] = defaultdict(dict)
    for row in scan(world, world.settings.checkpoints_table):
        if (found := WORK_ROW.match(row["sk"])) is not None:
            rows[row["pk"], found[1]][found[2]] = row
    for pk in invariants.jobs:
        for number, checker in invariants.chunks[pk].items():
            tenant, job, _ = name = invariants.chunk_name(pk, number)
            if number == keys.JOIN_CHUNK or name in provider.sharing:
                continue
            ref = JobRef(tenant, job).chunk(number)
            work = Work(rows[ref.pk, f"{number:08d}"], None)
            usage, _ = usage_in(work, Chunk.read(ref, checker.item))
            untold = book[name][1]
            check_bill(invariants, name, usage, checker.item["status"], untold)


def check_bill(
    invariants: Invariants,
    chunk: ChunkKey,
    usage: CallUsage,
    status: str,
    untold: int,
) -> None:
    """Check the bill of one chunk beside the book of the provider.

    `untold`: the rows that the provider has billed and not told.
    """
    provider, (_, job, number) = invariants.provider, chunk
    assert provider is not None  # noqa: S101 -- as the caller has seen
    calls, nano = (usage.total("paid")[name] for name in ("calls", "nano_usd"))
    if calls > provider.answered[chunk]:
        invariants.report_violation(f"I28: {job}/{number} bills {calls} calls")
    if nano > provider.answered_nano[chunk]:
        invariants.report_violation(f"I28: {job}/{number} bills {nano} nano-dollars")
    if status != ChunkStatus.SUCCEEDED:
        return
    perhaps = usage.total("possibly_paid")
    known, charged = calls + perhaps["calls"], provider.charged[chunk]
    if charged > known:
        invariants.report_violation(
            f"I28: {job}/{number} bills {known} calls of {charged}"
        )
    known_nano, charged_nano = nano + perhaps["nano_usd"], provider.charged_nano[chunk]
    # What is not known of a batch is in doubt without its price.
    charged_nano -= untold * TIER_NANO_USD["batch"]
    if charged_nano > known_nano:
        invariants.report_violation(
            f"I28: {job}/{number} bills {known_nano} nano-dollars of {charged_nano}"
        )


def check_deleted(world: World, invariants: Invariants, ref: JobRef) -> None:
    """Check that a deleted job left its tombstone, and nothing of a payload.

    A late message may still be counted in a tally until the second sweep.
    """
    settings = world.settings
    for table in (settings.checkpoints_table, settings.dead_letters_table):
        for row in scan(world, table):
            ours = keys.job_of_pk(row["pk"]) == (ref.tenant, ref.job)
            if ours and row["sk"] not in {keys.META_SK, keys.TALLY_SK, keys.BLOCK_SK}:
                invariants.report_violation(f"I22: {ref.job} left the row {row['sk']}")
    for name in world.s3.names(BUCKET):
        if keys.job_of_object(name) == (ref.tenant, ref.job):
            invariants.report_violation(f"I22: {ref.job} left the object {name}")


def scan(world: World, table: str) -> Iterator[Item]:
    """Yield every item of a table."""
    request: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
    while True:
        reply = world.dynamodb.call("scan", request)
        yield from map(from_item, reply["Items"])
        if "LastEvaluatedKey" not in reply:
            return
        request["ExclusiveStartKey"] = reply["LastEvaluatedKey"]


def get(world: World, table: str, pk: str, sk: str) -> Item | None:
    """Read an item."""
    reply = world.dynamodb.call(
        "get_item",
        {
            "TableName": table,
            "Key": {"pk": {"S": pk}, "sk": {"S": sk}},
            "ConsistentRead": True,
        },
    )
    return from_item(reply["Item"]) if "Item" in reply else None
