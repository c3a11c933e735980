"""The rows of the table of dead letters that operators and the reconciler read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from piecework.domain import keys, records
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

    @property
    def job(self) -> str:
        """The job of the dead letter."""
        return self._text("job")

    @property
    def chunk(self) -> int:
        """The number of its chunk."""
        return records.read_int(self.item, "chunk", self.WHAT, keys.JOIN_CHUNK)

    @property
    def dead_lettered_at(self) -> str:
        """When the chunk was dead-lettered, ISO 8601."""
        return self._text("dead_lettered_at")

    @property
    def pipeline(self) -> str:
        """The pipeline of its job."""
        return str(self.item.get("pipeline", ""))


@dataclass(frozen=True, slots=True)
class DeadLetterRow(Row):
    """A dead letter: the stored story of one death of a chunk."""

    ref: ChunkRef
    gen: int

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
                letter._text(needed)
            if letter.state not in STATES:
                raise records.unreadable_error(letter._what, "has an unknown 'state'")
        except PermanentError:
            if unreadable is None:
                raise
            unreadable.append(letter)
            return None
        return letter

    @property
    def state(self) -> str:
        """Whether it is open, redriven or discarded."""
        return self._text("state")

    @property
    def error_code(self) -> str:
        """The code of the error of which the chunk died."""
        return self._text("error_code")

    @property
    def dead_lettered_at(self) -> str:
        """When it was written, ISO 8601."""
        return self._text("dead_lettered_at")

    @property
    def closed_at(self) -> str:
        """When an operator redrove or discarded it, ISO 8601; empty: it is open."""
        found = (self.item.get("redriven_at"), self.item.get("discarded_at"))
        return max(str(at or "") for at in found)

    @property
    def job(self) -> JobRef:
        """The job of the chunk."""
        return self.ref.of

    @property
    def chunk(self) -> int:
        """The number of the chunk."""
        return self.ref.chunk

    @property
    def stage(self) -> str:
        """The stage in which the chunk died; empty: it is not known."""
        return str(self.item.get("stage", ""))

    @property
    def label(self) -> str:
        """The label of the chunk."""
        return str(self.item.get("label", ""))

    @property
    def order_key(self) -> str:
        """The hash of the chunk's order key; empty: it has none."""
        return records.read_optional_text(self.item, "order_key") or ""

    @property
    def error(self) -> str:
        """The message of the last error."""
        return str(self.item.get("error", ""))

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the cause; early versions did not store it."""
        found = records.read_optional_text(self.item, "fingerprint")
        return found or fingerprint(self.error_code, self.stage, self.error)

    @property
    def pipeline(self) -> str:
        """The name of the pipeline."""
        return str(self.item.get("pipeline", ""))

    @property
    def compensation(self) -> str:
        """The result of the compensation."""
        return str(self.item.get("compensation", ""))

    @property
    def uncompensated_stages(self) -> list[str]:
        """The stages whose effects remain; empty: there are none, or it is unknown."""
        found = self.item.get("uncompensated_stages") or ()
        return [str(name) for name in found]

    @property
    def stages_without_effect(self) -> list[str]:
        """The stages that were not compensated, because no effect happened."""
        return [str(name) for name in self.item.get("stages_without_effect") or ()]

    @property
    def payload(self) -> str:
        """The place of the payload that the chunk died with; empty for a join."""
        return records.read_optional_text(self.item, "payload") or ""

    @property
    def payload_sha256(self) -> str:
        """The hash of that payload."""
        return str(self.item.get("payload_sha256"))

    @property
    def redriven_gen(self) -> int | None:
        """The generation of its redrive; None: it was not redriven."""
        return records.read_optional_int(self.item, "redriven_gen")

    @property
    def attempts(self) -> int:
        """The attempts of the chunk in this generation."""
        return records.read_optional_int(self.item, "attempts") or 0

    @property
    def error_history(self) -> Any:
        """The errors of the claims, oldest first."""
        what = f"The error history of dead letter {self.ref}"
        return records.read_value(self._text("error_history"), what)

    def to_close(self) -> DeadLetterRow:
        """Return it with only the attributes that its end needs, to save memory."""
        return replace(self, item=self.pick(CLOSING))

    @property
    def _what(self) -> str:
        chunk = keys.chunk_name(self.ref.chunk)
        return f"The dead letter {self.gen} of {self.ref.job}/{chunk}"

    def _text(self, name: str) -> str:
        return records.read_text(self.item, name, self._what)

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
