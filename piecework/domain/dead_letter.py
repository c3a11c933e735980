"""The rows of the table of dead letters that operators and the reconciler read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from piecework.domain import keys, records
from piecework.domain.fields import (
    AnyText,
    Decoded,
    Number,
    OptionalNumber,
    ShownNumber,
    ShownText,
    Text,
    map_list,
    mapping,
    text_list,
)
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.rows import HIDDEN, Row
from piecework.errors import PermanentError
from piecework.errors.fingerprint import fingerprint

STATES = ("OPEN", "REDRIVEN", "DISCARDED")
#: The attributes without which a dead letter is unreadable.
NEEDED = ("error_code", "dead_lettered_at", "state", "error_history")
#: Those by which an operator selects it. A chunk with a damaged stage leaves none.
SELECTED_BY = ("stage", "compensation")
#: The attributes that the end of a dead letter reads.
CLOSING = ("dead_lettered_at", "state")


@dataclass(frozen=True, slots=True)
class OpenLetterRow(Row):
    """A line in the list of open dead letters."""

    WHAT = "A line in the list of open dead letters"

    kind = ShownText("`open`.")
    tenant = ShownText("The tenant of the dead letter.")
    job = Text("The job of the dead letter.")
    chunk = Number("The number of its chunk.", least=keys.JOIN_CHUNK)
    gen = OptionalNumber("The generation in which the chunk died.")
    pipeline = AnyText("The pipeline of its job.")
    fingerprint = AnyText("The fingerprint of its cause.")
    dead_lettered_at = Text("When the chunk was dead-lettered.")


@dataclass(frozen=True, slots=True)
class DeadLetterRow(Row):
    """A dead letter: the stored story of one death of a chunk."""

    ref: ChunkRef
    gen: int

    kind = ShownText("`dead-letter`.")
    state = Text("`OPEN`, `REDRIVEN` or `DISCARDED`.")
    label = AnyText("The label of the chunk.")
    pipeline = AnyText("The name of the pipeline.")
    owner = ShownText("The team that owns the pipeline, or the deployment.")
    runbook = ShownText("The runbook of the pipeline, or of the deployment.")
    dead_lettered_at = Text("When it was written.")
    created_at = ShownText("When the chunk was created.")
    # The death.
    stage = AnyText("The stage in which the chunk died; empty: it is not known.")
    error_code = Text("The code of the error of which the chunk died.")
    error_class = ShownText("The class of that error.")
    error = AnyText("The message of that error.")
    raised = ShownText(
        "The exception and its place in the user's code, such as `KeyError at "
        "shop.py:41 in price`; empty: the code raised none."
    )
    cause = ShownText("Of a code of the pipeline's own: the cause in its row.")
    recovery = ShownText(
        "Of a code of the pipeline's own: the recovery in its row, or that the code "
        "has none."
    )
    stored_fingerprint = ShownText(
        "Equal for dead letters of one cause: a hash of code, stage and message "
        "without variable parts. It only groups.",
        "fingerprint",
    )
    stored_history = Text(
        "The envelopes of the last 32 claims that failed, in order, each with its "
        "worker: a JSON list.",
        "error_history",
    )
    stored_attempts = ShownNumber(
        "The attempts of the chunk in this generation.", "attempts"
    )
    claims = ShownNumber("The claims of the chunk.")
    receive_count = ShownNumber("How often SQS delivered the last message.")
    worker = ShownText("Its last owner.")
    code_version = ShownText("The code version of that owner; empty: not known.")
    # The compensation.
    compensation = AnyText("The result of the compensation.")
    uncompensated_stages = Decoded(
        text_list,
        "The stages whose effects remain; empty: there are none, or it is unknown.",
        kind="list",
    )
    stages_without_effect = Decoded(
        text_list,
        "The stages with a compensation that did not run, because no effect happened.",
        kind="list",
    )
    compensation_errors = Decoded(
        mapping, "Why the compensation of each failed, by stage.", kind="map"
    )
    resolved_stages = Decoded(
        text_list, "The stages that an operator compensated by hand.", kind="list"
    )
    compensation_resolved_at = ShownText("When; empty: none did.")
    compensation_resolved_by = ShownText("That operator; empty: none did.")
    compensation_resolve_reason = ShownText("Why; empty: none did.")
    # The chunk.
    order_key = ShownText("The hash of the chunk's order key; empty: it has none.")
    payload = ShownText(
        "The place of the payload that the chunk died with; empty for a join."
    )
    payload_sha256 = AnyText("The hash of that payload.")
    patched_in_gen = ShownNumber(
        "The generation since which the payload differs from the submitted one."
    )
    replay_of = ShownNumber("The generation of the chunk's previous dead letter.")
    origin_gen = ShownNumber("The generation of the chunk's first dead letter.")
    # The ladder.
    ladder = Decoded(map_list, "The rungs of its ladder.", kind="list")
    rung = ShownNumber("The position of the next rung.")
    rung_wake_at = ShownText("When a process looks at that rung next.")
    ladder_version = ShownNumber("A number that each write of the rungs raises.")
    # The end.
    redriven_at = ShownText("When an operator redrove it; empty: none did.")
    redriven_by = ShownText("That operator; empty: none did.")
    redrive_reason = ShownText("Why; empty: none did.")
    redriven_gen = ShownNumber(
        "The generation of its redrive; None: it was not redriven."
    )
    patch = ShownText(
        "The fields that the merge patch of the redrive changes; their number, above "
        "4,096 characters."
    )
    patched_payload = ShownText("The place of the new payload.")
    patched_payload_sha256 = ShownText("The hash of the new payload.")
    discarded_at = ShownText("When an operator discarded it; empty: none did.")
    discarded_by = ShownText("That operator; empty: none did.")
    discard_reason = ShownText("Why; empty: none did.")

    @classmethod
    def read(
        cls, item: Mapping[str, Any], unreadable: list[DeadLetterRow] | None = None
    ) -> DeadLetterRow | None:
        """Read an item; None: it is another row, or a damaged one for `unreadable`.

        Tenant, job, chunk and generation come from the key, because an operator cannot
        edit it. So no edited attribute shows the letter of another tenant.

        Raises:
            PermanentError: `runtime.record.unreadable`, without `unreadable`.
        """
        name = keys.dead_letter_of(item["pk"], item["sk"])
        if name is None:
            return None
        tenant, job, chunk, gen = name
        letter = cls(item, ChunkRef(tenant, job, chunk), gen)
        try:
            present = [name for name in SELECTED_BY if item.get(name) is not None]
            for needed in (*NEEDED, *present):
                records.read_text(item, needed, letter.what)
            if letter.state not in STATES:
                raise records.unreadable_error(letter.what, "has an unknown 'state'")
        except PermanentError:
            if unreadable is None:
                raise
            unreadable.append(letter)
            return None
        return letter

    @property
    def what(self) -> str:
        """The record in words, for messages."""
        chunk = keys.chunk_name(self.ref.chunk)
        return f"The dead letter {self.gen} of {self.ref.job}/{chunk}"

    @property
    def closed_at(self) -> str:
        """When an operator redrove or discarded it, ISO 8601; empty: it is open."""
        return max(self.redriven_at, self.discarded_at)

    @property
    def job(self) -> JobRef:
        """The job of the chunk."""
        return self.ref.of

    @property
    def chunk(self) -> int:
        """The number of the chunk."""
        return self.ref.chunk

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the cause; early versions did not store it."""
        found = self.stored_fingerprint
        return found or fingerprint(self.error_code, self.stage, self.error)

    @property
    def attempts(self) -> int:
        """The attempts of the chunk in this generation."""
        return self.stored_attempts or 0

    @property
    def error_history(self) -> Any:
        """The errors of the claims, oldest first."""
        what = f"The error history of dead letter {self.ref}"
        return records.read_value(self.stored_history, what)

    def to_close(self) -> DeadLetterRow:
        """Return it with only the attributes that its end needs, to save memory."""
        return replace(self, item=self.pick(CLOSING))

    @property
    def facts(self) -> dict[str, Any]:
        """All its attributes as a document, with the names that its key has."""
        shown = {n: v for n, v in self.item.items() if n not in HIDDEN - {"v"}}
        return shown | {
            "tenant": self.ref.tenant,
            "job": self.ref.job,
            "chunk": self.ref.chunk,
            "gen": self.gen,
            "fingerprint": self.fingerprint,
        }
