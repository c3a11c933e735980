"""Give a dead chunk another payload: a new object, which its redrive points to.

Payloads are never changed where they lie. The manifest goes on saying what was
submitted; the letter keeps the old place, and what was changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from orchestrator.merge_patch import difference, merged
from piecework import keys
from piecework.errors import PieceworkError, UsageError
from piecework.model import JobRef
from piecework.payloads import MOST_BYTES, PayloadRef, Payloads, pack_key
from piecework.pipeline import Pipeline
from piecework.runtime import Runtime
from piecework.store.reopen import Patched
from piecework.store.table import Item
from piecework.strict_json import Bounds, read_json

#: Characters of a patch that a letter keeps; of a longer one it keeps the hash.
PATCH_LIMIT = 4_096


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to become of payloads.

    Attributes:
        value: A merge patch, or the whole new payload.
        pipeline: Its payload is what a new one has to fit; without one, any JSON
            object does.
    """

    value: dict[str, Any]
    whole: bool = False
    pipeline: Pipeline | None = None

    def new(self, old: Any) -> Any:
        """Return a payload as it is to be.

        Raises:
            UsageError: `redrive.payload.invalid`, naming the fields.
        """
        found = self.value if self.whole else merged(old, self.value)
        if self.pipeline is None:
            return found
        model = self.pipeline.payload
        try:
            valid = model.model_validate_json(json.dumps(found))
            # As a submit writes it: by its aliases, and without what is computed.
            text = valid.model_dump_json(by_alias=True, round_trip=True)
            model.model_validate_json(text)
        except ValidationError as error:
            fields = {".".join(map(str, e["loc"])) or "payload" for e in error.errors()}
            message = (
                f"The new payload does not fit {model.__name__}: {sorted(fields)}."
            )
            raise invalid(message) from error
        return json.loads(text)


@dataclass(frozen=True, slots=True)
class Edited:
    """A payload as it will be, and how a chunk and a letter name it."""

    content: bytes
    pack: str
    patched: Patched


async def edited(rt: Runtime, letter: Item, edit: Edit) -> Edited | None:
    """Return the new payload of a letter; None: the edit leaves it as it is.

    Raises:
        UsageError: `redrive.payload.invalid`.
        PieceworkError: The payload to be patched cannot be read.
    """
    if not letter.get("payload"):
        message = f"Chunk {letter['chunk']} of {letter['job']} has no payload."
        raise invalid(message)
    if edit.pipeline and edit.pipeline.name != letter["pipeline"]:
        message = f"Its pipeline is {letter['pipeline']}, not {edit.pipeline.name}."
        raise invalid(message)
    old = await payload(rt, letter, needed=not edit.whole)
    new = edit.new(old)
    if new == old:
        return None
    try:
        content = json.dumps(new, ensure_ascii=False, allow_nan=False).encode()
        read_json(content, Bounds(MOST_BYTES))  # as the worker will
    except ValueError as error:
        message = f"The new payload cannot be written as JSON: {error}."
        raise invalid(message) from error
    sha256 = keys.sha256(content)
    pack = sha256[:32]
    place = PayloadRef(pack, 0, len(content))
    patch = patch_text(edit.value if not edit.whole else difference(old, new))
    return Edited(content, pack, Patched(str(place), sha256, patch))


async def payload(rt: Runtime, letter: Item, *, needed: bool) -> Any:
    """Return the payload that a chunk died with; None if it may be missing, and is."""
    ref = JobRef(letter["tenant"], letter["job"])
    place = PayloadRef.parse(str(letter["payload"]))
    sha256 = str(letter["payload_sha256"])
    try:
        content = await Payloads(rt.objects).read(ref.tenant, ref.job, place, sha256)
        return read_json(content, Bounds(MOST_BYTES))
    except (PieceworkError, ValueError):
        if needed:
            raise
        return None


def patch_text(patch: Any) -> str:
    """Return what a letter keeps of a patch."""
    text = json.dumps(patch, ensure_ascii=False)
    if len(text) <= PATCH_LIMIT:
        return text
    return f"{len(text)} characters, SHA-256 {keys.sha256(text.encode())}"


async def store(rt: Runtime, letter: Item, found: Edited) -> Patched:
    """Store a new payload; its name is its hash, so twice is once."""
    key = pack_key(letter["tenant"], letter["job"], found.pack)
    await rt.objects.put(key, found.content, "application/jsonl")
    return found.patched


def invalid(message: str) -> UsageError:
    """Return the refusal of a payload."""
    return UsageError(message, code="redrive.payload.invalid")
