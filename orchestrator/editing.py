"""Give a dead chunk a new payload: a new object, to which its redrive points.

A stored payload is never changed in place. The manifest keeps what was submitted; the
dead letter keeps the place of the old payload, and the patch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from orchestrator.merge_patch import apply_patch, make_patch
from piecework import keys
from piecework.errors import PieceworkError, UsageError
from piecework.model import JobRef
from piecework.payloads import MOST_BYTES, PayloadRef, Payloads, pack_key
from piecework.pipeline import Pipeline
from piecework.runtime import Runtime
from piecework.store.reopen import Patched
from piecework.store.table import Item
from piecework.strict_json import Bounds, read_json

#: Characters of a patch that a dead letter keeps; of a longer patch it keeps the hash.
PATCH_LIMIT = 4_096


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of payloads.

    Attributes:
        value: A merge patch, or a whole new payload.
        whole: Whether the value is a whole payload.
        pipeline: The pipeline whose payload type a new payload must fit; None: any
            JSON object is accepted.
    """

    value: dict[str, Any]
    whole: bool = False
    pipeline: Pipeline | None = None

    def apply(self, old: Any) -> Any:
        """Return the new payload.

        Raises:
            UsageError: `redrive.payload.invalid`, naming the fields.
        """
        found = self.value if self.whole else apply_patch(old, self.value)
        if self.pipeline is None:
            return found
        model = self.pipeline.payload
        try:
            valid = model.model_validate_json(json.dumps(found))
            # As a submit writes it: by alias, and without computed fields.
            text = valid.model_dump_json(by_alias=True, round_trip=True)
            model.model_validate_json(text)
        except ValidationError as error:
            fields = {".".join(map(str, e["loc"])) or "payload" for e in error.errors()}
            message = (
                f"The new payload does not fit {model.__name__}: {sorted(fields)}."
            )
            raise invalid_payload(message) from error
        return json.loads(text)


@dataclass(frozen=True, slots=True)
class EditedPayload:
    """A new payload as it will be stored, and its reference for chunk and letter."""

    content: bytes
    pack: str
    patched: Patched


async def edit_payload(rt: Runtime, letter: Item, edit: Edit) -> EditedPayload | None:
    """Return the new payload for a dead letter; None: the edit changes nothing.

    Raises:
        UsageError: `redrive.payload.invalid`.
        PieceworkError: The payload to patch cannot be read.
    """
    if not letter.get("payload"):
        message = f"Chunk {letter['chunk']} of {letter['job']} has no payload."
        raise invalid_payload(message)
    if edit.pipeline and edit.pipeline.name != letter["pipeline"]:
        message = (
            f"Chunk {letter['chunk']} of {letter['job']} belongs to pipeline "
            f"{letter['pipeline']}, not {edit.pipeline.name}."
        )
        raise invalid_payload(message)
    old = await read_payload(rt, letter, required=not edit.whole)
    new = edit.apply(old)
    if new == old:
        return None
    try:
        content = json.dumps(new, ensure_ascii=False, allow_nan=False).encode()
        read_json(content, Bounds(MOST_BYTES))  # as the worker will
    except ValueError as error:
        message = f"The new payload cannot be written as JSON: {error}."
        raise invalid_payload(message) from error
    sha256 = keys.sha256(content)
    pack = sha256[:32]
    place = PayloadRef(pack, 0, len(content))
    patch = patch_text(edit.value if not edit.whole else make_patch(old, new))
    return EditedPayload(content, pack, Patched(str(place), sha256, patch))


async def read_payload(rt: Runtime, letter: Item, *, required: bool) -> Any:
    """Return the payload that a chunk died with.

    If it is not required, return None where it cannot be read.
    """
    ref = JobRef(letter["tenant"], letter["job"])
    place = PayloadRef.parse(str(letter["payload"]))
    sha256 = str(letter["payload_sha256"])
    try:
        content = await Payloads(rt.objects).read(ref.tenant, ref.job, place, sha256)
        return read_json(content, Bounds(MOST_BYTES))
    except (PieceworkError, ValueError):
        if required:
            raise
        return None


def patch_text(patch: Any) -> str:
    """Return the text of a patch that a dead letter keeps."""
    text = json.dumps(patch, ensure_ascii=False)
    if len(text) <= PATCH_LIMIT:
        return text
    return f"{len(text)} characters, SHA-256 {keys.sha256(text.encode())}"


async def store_payload(rt: Runtime, letter: Item, edited: EditedPayload) -> Patched:
    """Store a new payload. Its name is its hash, so storing twice changes nothing."""
    key = pack_key(letter["tenant"], letter["job"], edited.pack)
    await rt.objects.put(key, edited.content, "application/jsonl")
    return edited.patched


def invalid_payload(message: str) -> UsageError:
    """Return the error that refuses a new payload."""
    return UsageError(message, code="redrive.payload.invalid")
