"""Read a dead letter with the chunk's earlier deaths, and how each was closed."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.cli.letters import Letter, with_fingerprint
from piecework.errors import NotFoundError, PieceworkError, StoreError
from piecework.model import ChunkRef
from piecework.payloads import MOST_BYTES, PayloadRef, Payloads
from piecework.record import read_value
from piecework.runtime import Runtime
from piecework.store.dead_letters import read_letter
from piecework.store.table import Item
from piecework.strict_json import Bounds, read_json

#: The attributes that close a dead letter, by its new state: time, actor, reason.
CLOSING_ATTRIBUTES = {
    "REDRIVEN": ("redriven_at", "redriven_by", "redrive_reason"),
    "DISCARDED": ("discarded_at", "discarded_by", "discard_reason"),
}


async def dead_letter_document(rt: Runtime, ref: ChunkRef) -> Letter:
    """Return the last dead letter of a chunk: error history, lineage and payload.

    Raises:
        NotFoundError: `job.dead_letter.not_found`.
    """
    rows = rt.dead_letters.query(ref.of.pk, f"{ref.sk}#")
    found = [letter async for row in rows if (letter := read_letter(row))]
    letters = sorted(map(with_fingerprint, found), key=lambda row: int(row["gen"]))
    if not letters:
        message = f"Chunk {ref} has no dead letter."
        step = f"`piecework dlq list --job {ref.job} --all`"
        raise NotFoundError(message, code="job.dead_letter.not_found", next_step=step)
    last = letters[-1]
    facts = {k: v for k, v in last.items() if k not in {"pk", "sk", "expires_at"}}
    chunk = await rt.table.get(ref.pk, ref.sk) or {}
    return {
        **facts,
        "error_history": read_value(
            str(last["error_history"]), "The error history of a dead letter"
        ),
        "deaths": len(letters),
        "lineage": lineage(letters),
        "chunk_now": {k: chunk[k] for k in ("status", "gen") if k in chunk},
        **await payload_facts(rt, ref, last),
    }


def lineage(letters: Sequence[Letter]) -> list[Letter]:
    """Return every death of a chunk, the oldest first, and how each was closed."""
    return [
        {
            "gen": letter["gen"],
            "dead_lettered_at": letter["dead_lettered_at"],
            "error_code": letter["error_code"],
            "fingerprint": letter["fingerprint"],
            "replay_of": letter.get("replay_of"),
            "state": letter["state"],
            **closing_facts(letter),
        }
        for letter in letters
    ]


def closing_facts(letter: Item) -> Letter:
    """Return when, by whom and why a dead letter was closed, and its redrive."""
    names = CLOSING_ATTRIBUTES.get(str(letter["state"]), ())
    facts = dict(zip(("at", "by", "why"), map(letter.get, names), strict=False))
    more = {"redriven_gen": letter.get("redriven_gen"), "patch": letter.get("patch")}
    return facts | {name: value for name, value in more.items() if value is not None}


async def payload_facts(rt: Runtime, ref: ChunkRef, letter: Letter) -> Letter:
    """Return the payload of a dead chunk, or why it cannot be read.

    Raises:
        StoreError: The bucket cannot be reached, so the payload may exist.
    """
    place, sha256 = letter.get("payload"), letter.get("payload_sha256")
    if not place:
        return {}
    try:
        payloads = Payloads(rt.objects)
        content = await payloads.read(
            ref.tenant, ref.job, PayloadRef.parse(str(place)), str(sha256)
        )
        return {"payload_at": place, "payload": read_json(content, Bounds(MOST_BYTES))}
    except StoreError:
        raise
    except (PieceworkError, ValueError) as error:
        code = error.code if isinstance(error, PieceworkError) else "not JSON"
        return {"payload_at": place, "payload": None, "payload_error": code}
