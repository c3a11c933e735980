"""Review a clause in this process: what the stages do, without calls between them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from piecework_examples.contract_review.analysis import analyse, merged
from piecework_examples.contract_review.clauses import Clause
from piecework_examples.contract_review.findings import (
    CategoryScore,
    ClauseReview,
    Finding,
    Record,
)
from piecework_examples.contract_review.playbook import categories, specialists
from piecework_examples.contract_review.scoring import choose, score

_QUOTES: Final = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'"})
_TERM: Final = r'"([A-Z][\w\s&-]{1,40})"'
_DEFINED: Final = re.compile(
    rf"{_TERM}\s+(?:means|includes|shall mean)|\((?:the\s+)?{_TERM}\)"
)


class Extract(Record):
    """A clause's text as the analysts read it, and the terms that it defines."""

    text: str
    words: int
    defined_terms: tuple[str, ...] = ()


def review(clause: Clause) -> ClauseReview:
    """Review one clause with the offline analysts."""
    extract = extracted(clause.text)
    scores = [score(clause.heading, extract.text, name) for name in categories()]
    findings = [analyse(extract.text, name) for name in specialists()]
    return reviewed(clause, extract, scores, findings)


def extracted(text: str) -> Extract:
    """Straighten quotes and white space, keep paragraphs, note the defined terms."""
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    straight = "\n\n".join(filter(None, paragraphs))
    terms = (means or named for means, named in _DEFINED.findall(straight))
    return Extract(
        text=straight,
        words=len(straight.split()),
        defined_terms=tuple(dict.fromkeys(terms)),
    )


def reviewed(
    clause: Clause,
    extract: Extract,
    scores: Sequence[CategoryScore],
    findings: Iterable[Sequence[Finding]],
) -> ClauseReview:
    """Put together what twelve scorers and eleven specialists said of a clause."""
    return ClauseReview(
        number=clause.number,
        heading=clause.heading,
        category=choose(scores),
        words=extract.words,
        defined_terms=extract.defined_terms,
        scores=tuple(sorted(scores, key=lambda s: -s.score)),
        findings=tuple(merged(chain.from_iterable(findings))),
    )
