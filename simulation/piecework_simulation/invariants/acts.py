"""Check what a chunk did outside, whatever version of its code asked for it.

Another version may ask for the same act by another key, in another stage, or of another
function. The checks of keys see two calls there. These see one act.

The checks know the acts of a pipeline of the simulator whose workers take two versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework.domain.outcome import CompensationResult
from piecework.domain.states import ChunkStatus

if TYPE_CHECKING:
    from piecework_simulation.provider import CallRecord, ChunkKey

Item = Mapping[str, Any]
#: The results of a compensation after which nothing may be left, or is named.
DENIES = {CompensationResult.COMPENSATED, CompensationResult.NOT_NEEDED}


@dataclass(frozen=True, slots=True)
class Acts:
    """The acts of a pipeline.

    Attributes:
        needed: Those that each version does: no chunk succeeds without them.
        undone: Those that each version compensates.
    """

    needed: frozenset[str]
    undone: frozenset[str]


@dataclass(slots=True)
class ActInvariants:
    """The calls of each act of each chunk.

    Attributes:
        pipelines: The acts of the pipelines that are known.
    """

    report_violation: Callable[[str], None]
    records: Mapping[str, CallRecord] = field(default_factory=dict)
    pipelines: Mapping[str, Acts] = field(default_factory=dict)
    calls: dict[ChunkKey, dict[str, set[str]]] = field(default_factory=dict)

    def note(self, pipeline: str, chunk: ChunkKey, act: object, identity: str) -> None:
        """Check that an act that is executed now has not happened by another call."""
        known = self.pipelines.get(pipeline)
        if known is None or act not in known.needed:
            return
        self.calls.setdefault(chunk, {}).setdefault(str(act), set()).add(identity)
        if len(self.active(chunk, str(act))) > 1:
            _, job, number = chunk
            self.report_violation(f"I29: {act} of {job}/{number} happened by two calls")

    def active(self, chunk: ChunkKey, act: str) -> list[str]:
        """Return the calls by which an act happened and was not compensated."""
        calls = self.calls.get(chunk, {}).get(act, ())
        return [call for call in calls if self.records[call].active > 0]

    def check_end(self, pipeline: str, name: ChunkKey, chunk: Item) -> None:
        """Check the acts of a chunk that has ended."""
        known = self.pipelines.get(pipeline)
        if known is None:
            return
        _, job, number = name
        done = {act for act in known.needed if self.active(name, act)}
        if chunk["status"] == ChunkStatus.SUCCEEDED:
            for act in sorted(known.needed - done):
                self.report_violation(f"I30: {job}/{number} succeeded without {act}")
        if chunk["status"] == ChunkStatus.DEAD and chunk["compensation"] in DENIES:
            for act in sorted(known.undone & done):
                self.report_violation(f"I31: {job}/{number} left {act}, unnamed")
