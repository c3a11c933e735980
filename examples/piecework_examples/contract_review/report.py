"""The report of a review: counted here, set out by the two templates beside it."""

from __future__ import annotations

import functools
import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from piecework_examples.contract_review.findings import (
    ClauseReview,
    Finding,
    Record,
    Severity,
)
from piecework_examples.contract_review.playbook import HERE, categories, specialists
from piecework_examples.contract_review.scoring import GENERAL

_WORST: Final = 5
#: The characters by which markdown makes code, emphasis, links, images and cells.
_MARKDOWN: Final = re.compile(r"[\\`*_\[\]!|#~]")


class Gap(Record):
    """A clause that is missing from the report, and why."""

    chunk: int
    label: str
    status: str
    error_code: str


class Report(Record):
    """The value of the job's join: the result of a review for programs."""

    clauses: int
    findings: dict[Severity, int]
    worst: tuple[str, ...] = ()
    missing: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A category in the summary: its clauses, and how sure the best of them is."""

    title: str
    clauses: tuple[tuple[int, int], ...]
    score: float
    findings: int
    fired: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """What a template sets out."""

    job: str
    report: Report
    reviews: tuple[tuple[int, ClauseReview], ...]
    by_severity: tuple[
        tuple[Severity, tuple[tuple[int, ClauseReview, Finding], ...]], ...
    ]
    rows: tuple[Row, ...]


@dataclass(slots=True)
class ReportBuilder:
    """Gathers reviews as they come; keeps what the page shows and no texts."""

    job: str
    reviews: list[tuple[int, ClauseReview]] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)

    def add(self, chunk: int, review: ClauseReview) -> None:
        """Take in one clause."""
        self.reviews.append((chunk, review))

    def miss(self, chunk: int, label: str, status: str, error_code: str) -> None:
        """Take in a clause that has no review."""
        gap = Gap(chunk=chunk, label=label, status=status, error_code=error_code)
        self.gaps.append(gap)

    def page(self) -> Page:
        """Count and sort."""
        by_severity = tuple((each, tuple(self._of(each))) for each in Severity)
        return Page(
            job=self.job,
            report=Report(
                clauses=len(self.reviews),
                findings={each: len(found) for each, found in by_severity},
                worst=tuple(self._worst()),
                missing=tuple(self.gaps),
            ),
            reviews=tuple(self.reviews),
            by_severity=by_severity,
            rows=tuple(self._rows()),
        )

    def _of(self, severity: Severity) -> Iterator[tuple[int, ClauseReview, Finding]]:
        for chunk, review in self.reviews:
            for finding in review.findings:
                if finding.severity is severity:
                    yield chunk, review, finding

    def _worst(self) -> list[str]:
        """Name the clauses with the worst findings, by counts from the worst down."""

        def weight(review: ClauseReview) -> tuple[int, ...]:
            counts = Counter(finding.severity for finding in review.findings)
            return tuple(counts[severity] for severity in Severity)

        risky = [review for _, review in self.reviews if review.findings]
        risky.sort(key=weight, reverse=True)
        return [f"{each.number} {each.heading}" for each in risky[:_WORST]]

    def _rows(self) -> Iterator[Row]:
        titles = {each.id: each.title for each in categories().values()}
        for name, title in (*titles.items(), (GENERAL, "None of the twelve")):
            mine = [(n, r) for n, r in self.reviews if r.category == name]
            if not mine and name == GENERAL:
                continue
            scores = [s for _, r in mine for s in r.scores if s.category == name]
            words = Counter(word for each in scores for word in each.fired)
            yield Row(
                title=title,
                clauses=tuple((chunk, review.number) for chunk, review in mine),
                score=max((each.score for each in scores), default=0.0),
                findings=sum(len(review.findings) for _, review in mine),
                fired=tuple(word for word, _ in words.most_common(6)),
            )


def render(page: Page, template: str) -> str:
    """Set a page out; HTML and markdown are escaped: strangers write contracts."""
    return _environment().get_template(template).render(page=page)


def plain(text: object) -> str:
    """Return a text that markdown shows as it is: no HTML, image, link or cell."""
    line = " ".join(str(text).split("\n"))
    return _MARKDOWN.sub(r"\\\g<0>", html.escape(line, quote=False))


def segments(text: str, fired: Sequence[str]) -> list[tuple[str, bool]]:
    """Cut a quote into parts, each with whether its words fired."""
    marked = bytearray(len(text))
    for words in fired:
        for found in re.finditer(re.escape(words), text, re.IGNORECASE):
            marked[found.start() : found.end()] = b"\1" * len(found.group())
    parts, start = [], 0
    for at in range(1, len(text) + 1):
        if at == len(text) or marked[at] != marked[start]:
            parts.append((text[start:at], bool(marked[start])))
            start = at
    return parts


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=select_autoescape(["html", "html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    environment.globals["segments"] = segments
    names = {each.id: each.title for each in categories().values()}
    names |= {each.id: each.title for each in specialists().values()}
    environment.globals["titles"] = names | {GENERAL: "None of the twelve"}
    return environment
