"""What is known of a call that has ended: one row of `piecework chunks calls`.

Records are stored packed. A page of the journal has those since the page before. The
row of the chunk has those that no page has. An answer that was replayed has only its
key: the record of the claim that made the call has the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from piecework.domain.packed import packed, read_packed
from piecework.errors import PermanentError

#: How a call ended. It was made; the cache of the tenant or an equal call answered it;
#: the lookup of its effect found it; the journal or the ledger had its answer. It
#: failed; or it was cut off, as by a cancel.
CallEnd: TypeAlias = Literal["made", "cached", "found", "replayed", "failed", "cut off"]
ENDS: Final[tuple[CallEnd, ...]] = get_args(CallEnd)
#: Characters of a key in a record: enough to tell the calls of a chunk apart.
KEY_LENGTH: Final = 12
#: Characters of a name in a record, and failed attempts that it has at most.
NAME_LENGTH: Final = 80
MOST_ATTEMPTS: Final = 10
#: Bytes of the packed records on the row of a chunk, at most.
ROW_BYTES: Final = 2048


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that failed: its code, and the milliseconds until the next one."""

    code: str
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call that has ended.

    Attributes:
        key: The first characters of its key.
        fence: The claim that asked for it.
        asked_at: When the stage asked for it, in milliseconds since 1970.
        waited_ms: From then to its first attempt: it waited for a limit, or a slot.
        took_ms: From then to its end.
        code: The code of its failure; empty: it was answered, or cut off.
        attempts: The attempts that failed.
        kept: Whether its claim may have kept its arguments.
    """

    key: str
    fence: int = 0
    end: CallEnd = "replayed"
    stage: str = ""
    dependency: str = ""
    function: str = ""
    asked_at: int = 0
    waited_ms: int = 0
    took_ms: int = 0
    code: str = ""
    attempts: tuple[FailedAttempt, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    nano_usd: int = 0
    kept: bool = False

    def listed(self, before_ms: int) -> list[Any]:
        """Return it as a list, without the empty values at its end.

        `before_ms`: the time of the record before it, to which its own is relative.
        """
        if self.end == "replayed":
            return [self.key]
        values = [
            *(self.key, ENDS.index(self.end)),
            *(self.stage, self.dependency, self.function),
            *(self.asked_at - before_ms, self.waited_ms, self.took_ms),
            *(self.tokens_in, self.tokens_out, self.nano_usd, self.code),
            [[each.code, each.delay_ms] for each in self.attempts],
            int(self.kept),
        ]
        while not values[-1]:
            values.pop()
        return values

    @classmethod
    def of_list(cls, found: Sequence[Any], fence: int, before_ms: int) -> CallRecord:
        """Return the record of a list.

        Raises:
            ValueError, TypeError, IndexError: It is not such a list.
        """
        key, *rest = found
        if not rest:
            return cls(str(key), fence)
        empty = [0, "", "", "", 0, 0, 0, 0, 0, 0, "", [], 0]
        end, stage, dependency, function, *more = rest + empty[len(rest) :]
        asked, waited, took, *amounts, code, attempts, kept = more
        tokens_in, tokens_out, nano_usd = amounts
        return cls(
            key=str(key),
            fence=fence,
            end=ENDS[int(end)],
            stage=str(stage),
            dependency=str(dependency),
            function=str(function),
            asked_at=int(asked) + before_ms,
            waited_ms=int(waited),
            took_ms=int(took),
            code=str(code),
            attempts=tuple(FailedAttempt(str(c), int(delay)) for c, delay in attempts),
            tokens_in=int(tokens_in),
            tokens_out=int(tokens_out),
            nano_usd=int(nano_usd),
            kept=bool(kept),
        )


def pack_records(records: Iterable[CallRecord]) -> bytes | None:
    """Return records in the form in which rows store them; None: there are none."""
    claims: dict[str, list[Any]] = {}
    before = 0
    for record in records:
        claims.setdefault(str(record.fence), []).append(record.listed(before))
        before = record.asked_at or before
    return packed(claims) if claims else None


def read_records(item: Mapping[str, Any], name: str) -> list[CallRecord]:
    """Return the records of a row; what is only shown stops no one.

    So a damaged attribute has no records, and a damaged record is left out.
    """
    if name not in item:
        return []
    found: list[CallRecord] = []
    before = 0
    with suppress(PermanentError, ValueError, TypeError, AttributeError):
        for fence, lists in read_packed(item, name, "The calls of a chunk").items():
            for each in lists:
                with suppress(ValueError, TypeError, IndexError):
                    record = CallRecord.of_list(each, int(fence), before)
                    before = record.asked_at or before
                    found.append(record)
    return found


def pack_for_row(records: Sequence[CallRecord]) -> bytes | None:
    """Return the last records that the row of a chunk takes."""
    kept = list(records)
    while kept:
        content = pack_records(kept)
        if content is None or len(content) <= ROW_BYTES:
            return content
        kept = kept[len(kept) // 4 + 1 :]
    return None
