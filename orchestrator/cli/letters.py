"""Find dead letters by what they died of, and tell the story of one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from orchestrator.inspector import require_job
from piecework import keys
from piecework.errors import NotFoundError, PieceworkError, UsageError
from piecework.model import ChunkRef, iso
from piecework.payloads import PayloadRef, Payloads
from piecework.runtime import Runtime
from piecework.store.dead_letters import DeadLetters
from piecework.store.table import Item

Letter = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which dead letters somebody means.

    Attributes:
        after: The moment since which they died.
        chunks: Empty: all.
        redriven: Those that were redriven, too.
    """

    job: str | None = None
    code: str | None = None
    stage: str | None = None
    after: float | None = None
    chunks: frozenset[int] = frozenset()
    redriven: bool = False

    def fits(self, letter: Item) -> bool:
        """Say whether a letter is meant."""
        return (
            (self.redriven or letter.get("letter_state") == "OPEN")
            and (self.code is None or fnmatchcase(letter["error_code"], self.code))
            and (self.stage is None or letter.get("stage") == self.stage)
            and (self.after is None or str(letter["died_at"]) >= iso(self.after))
            and (not self.chunks or letter["chunk"] in self.chunks)
        )


async def select(rt: Runtime, wanted: Filter) -> list[Letter]:
    """Return the letters that are meant, the newest first.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `cli.usage.invalid`: chunks are counted by job.
    """
    if wanted.chunks and wanted.job is None:
        message = "--chunk names a chunk of a job, and there is no --job."
        raise UsageError(message, next_step="Add --job JOB.")
    found = [letter async for letter in candidates(rt, wanted) if wanted.fits(letter)]
    return sorted(found, key=lambda letter: str(letter["died_at"]), reverse=True)


async def candidates(rt: Runtime, wanted: Filter) -> AsyncIterator[Letter]:
    """Yield the letters of the job, or of the tenant."""
    letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    if wanted.job is None:
        found = letters.all(rt.settings.tenant)
    else:
        found = letters.of_job((await require_job(rt, wanted.job)).ref)
    async for letter in found:
        yield letter


async def story(rt: Runtime, ref: ChunkRef) -> Letter:
    """Return the last dead letter of a chunk, with its trail and its payload.

    Raises:
        NotFoundError: `job.dead_letter.not_found`.
    """
    letters = [row async for row in rt.dead_letters.query(ref.of.pk, f"{ref.sk}#")]
    if not letters:
        message = f"There is no dead letter of {ref}."
        step = f"`piecework dlq list --job {ref.job} --all`"
        raise NotFoundError(message, code="job.dead_letter.not_found", next_step=step)
    last = max(letters, key=lambda letter: int(letter["gen"]))
    facts = {k: v for k, v in last.items() if k not in {"pk", "sk", "expires_at"}}
    return {
        **facts,
        "trail": json.loads(str(last["trail"])),
        "deaths": len(letters),
        **await payload_of(rt, ref, last),
    }


async def payload_of(rt: Runtime, ref: ChunkRef, letter: Letter) -> Letter:
    """Return the payload of a dead chunk; the story is told without it, too."""
    place, sha256 = letter.get("payload"), letter.get("payload_sha256")
    if not place:
        return {}
    try:
        payloads = Payloads(rt.objects)
        content = await payloads.read(
            ref.tenant, ref.job, PayloadRef.parse(str(place)), str(sha256)
        )
        return {"payload_at": place, "payload": json.loads(content)}
    except (PieceworkError, ValueError) as error:
        code = error.code if isinstance(error, PieceworkError) else "not JSON"
        return {"payload_at": place, "payload": None, "payload_error": code}


def chunk_word(letter: Item) -> str | int:
    """Return what a person calls the chunk."""
    number = int(letter["chunk"])
    return "join" if number == keys.JOIN_CHUNK else number
