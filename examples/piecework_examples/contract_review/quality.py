"""Measure the offline analysts against the gold labels of the three contracts.

    python -m piecework_examples.contract_review.quality

A finding counts as right when clause, specialist and severity are those of the gold. If
a specialist has several findings in one clause, only the worst counts. The playbook was
tuned without the held-out contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from piecework import Document
from piecework_examples.contract_review.clauses import Clause, split
from piecework_examples.contract_review.findings import ClauseReview, Record, Severity
from piecework_examples.contract_review.playbook import HERE
from piecework_examples.contract_review.reviewing import review

CONTRACTS: Final = HERE / "contracts"
GOLD: Final = HERE / "gold"

Found = tuple[int, str, Severity]


class GoldFinding(Record):
    """What a reviewer must find in a clause."""

    specialist: str
    severity: Severity


class GoldClause(Record):
    """What a clause is about, and what is wrong with it."""

    clause: int
    category: str
    findings: tuple[GoldFinding, ...] = ()


class Gold(Record):
    """The labels of one contract."""

    contract: str
    held_out: bool
    clauses: tuple[GoldClause, ...]


@dataclass(slots=True)
class Quality:
    """Counts of right and wrong, from which every figure follows."""

    name: str
    clauses: int = 0
    right: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    hits: set[Found] = field(default_factory=set)
    false_alarms: set[Found] = field(default_factory=set)
    misses: set[Found] = field(default_factory=set)

    @property
    def accuracy(self) -> float:
        """Return the share of clauses in the right category."""
        return len(self.right) / max(1, self.clauses)

    @property
    def precision(self) -> float:
        """Return the share of the findings that are right."""
        return len(self.hits) / max(1, len(self.hits) + len(self.false_alarms))

    @property
    def recall(self) -> float:
        """Return the share of the gold findings that were found."""
        return len(self.hits) / max(1, len(self.hits) + len(self.misses))


def main() -> None:
    """Print one block a contract, and all of them in the last line."""
    parts = list(measured())
    for part in parts:
        print(f"{part.name}: {_figures(part)}")
        for line in _mistakes(part):
            print(f"  {line}")
    print(_figures(total(parts)))


def measured() -> Iterator[Quality]:
    """Review each contract that has gold labels, offline."""
    for path in sorted(GOLD.glob("*.json")):
        gold = Gold.model_validate_json(path.read_text("utf-8"))
        text = (CONTRACTS / gold.contract).read_text("utf-8")
        yield compared(gold, split(Document(gold.contract, text)))


def compared(gold: Gold, clauses: Iterable[Clause]) -> Quality:
    """Compare the reviews of a contract's clauses with its labels."""
    name = gold.contract + (" (held out)" if gold.held_out else "")
    quality = Quality(name, clauses=len(gold.clauses))
    reviews = {clause.number: review(clause) for clause in clauses}
    for label in gold.clauses:
        _compare(label, reviews.get(label.clause), quality)
    return quality


def total(parts: Iterable[Quality]) -> Quality:
    """Count several contracts as one."""
    whole = Quality("all")
    for part in parts:
        # A clause's number is unique in its contract only.
        shift = whole.clauses
        whole.clauses += part.clauses
        whole.right += part.right
        for name in ("hits", "false_alarms", "misses"):
            moved = {(clause + shift, *rest) for clause, *rest in getattr(part, name)}
            getattr(whole, name).update(moved)
    return whole


def _compare(label: GoldClause, got: ClauseReview | None, quality: Quality) -> None:
    category = got.category if got else "(no such clause)"
    if category == label.category:
        quality.right.append(label.clause)
    else:
        quality.wrong.append(f"{label.clause}: {label.category}, not {category}")
    wanted = {(label.clause, f.specialist, f.severity) for f in label.findings}
    found = set(_worst(got)) if got else set()
    quality.hits |= wanted & found
    quality.false_alarms |= found - wanted
    quality.misses |= wanted - found


def _worst(got: ClauseReview) -> Iterator[Found]:
    by_specialist: dict[str, Severity] = {}
    for finding in sorted(got.findings, key=lambda f: f.severity.rank):
        by_specialist.setdefault(finding.specialist, finding.severity)
    for specialist, severity in by_specialist.items():
        yield got.number, specialist, severity


def _figures(quality: Quality) -> str:
    return (
        f"category_accuracy={quality.accuracy:.3f} "
        f"finding_precision={quality.precision:.3f} "
        f"finding_recall={quality.recall:.3f}"
    )


def _mistakes(quality: Quality) -> Iterator[str]:
    yield from (f"category of clause {line}" for line in quality.wrong)
    for title, found in (("false", quality.false_alarms), ("missed", quality.misses)):
        for clause, specialist, severity in sorted(found):
            yield f"{title} in clause {clause}: {specialist} ({severity})"


if __name__ == "__main__":
    main()
