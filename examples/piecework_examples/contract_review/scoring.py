"""Score how much a clause is about a category, and say which words fired.

    raw   = lexicon + PROTOTYPE * best BM25 of the category's prototype sentences
    score = raw / (raw + HALF)

A term counts its weight times 1 + ln(occurrences in the text). In the heading it counts
again, HEADING times: the author of a clause names its subject there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Final

from piecework_examples.contract_review.bm25 import Bm25
from piecework_examples.contract_review.findings import CategoryScore
from piecework_examples.contract_review.playbook import Category, categories
from piecework_examples.contract_review.words import Word, content_stems, words

GENERAL: Final = "general"
THRESHOLD: Final = 0.55  # below it a clause is about none of the twelve
HALF: Final = 10.0
PROTOTYPE: Final = 0.6
HEADING: Final = 2.0
_SHOWN: Final = 8


def score(heading: str, text: str, category_id: str) -> CategoryScore:
    """Score one clause in one category."""
    category = categories()[category_id]
    raw, fired = 0.0, dict[str, float]()
    for part, factor in ((heading, HEADING), (text, 1.0)):
        for shown, weight in lexicon_hits(part, category):
            raw += weight * factor
            fired[shown] = max(weight, fired.get(shown, 0))
    raw += PROTOTYPE * prototype_score(f"{heading}. {text}", category_id)
    best = sorted(fired, key=lambda shown: (-fired[shown], shown))[:_SHOWN]
    value = round(raw / (raw + HALF), 4)
    return CategoryScore(category=category_id, score=value, fired=tuple(best))


def choose(scores: Sequence[CategoryScore]) -> str:
    """Return the category of a clause: the best one, if it is good enough."""
    best = max(scores, key=lambda s: s.score, default=None)
    return best.category if best and best.score >= THRESHOLD else GENERAL


def lexicon_hits(text: str, category: Category) -> Iterator[tuple[str, float]]:
    """Yield each lexicon term in the text, as written there, with its weight."""
    found = words(text)
    places: dict[str, list[int]] = {}
    for at, word in enumerate(found):
        places.setdefault(word.stem, []).append(at)
    for weight, phrase in _phrases(category.id):
        starts = [at for at in places.get(phrase[0], ()) if _stands(found, at, phrase)]
        if starts:
            first, last = found[starts[0]], found[starts[0] + len(phrase) - 1]
            shown = text[first.start : last.end].lower()
            yield shown, weight * (1 + math.log(len(starts)))


def prototype_score(text: str, category_id: str) -> float:
    """Return how close a text comes to the category's nearest prototype."""
    index, owners = _prototypes()
    terms = content_stems(text)
    mine = (number for number, owner in enumerate(owners) if owner == category_id)
    return max((index.score(terms, number) for number in mine), default=0.0)


def _stands(found: Sequence[Word], at: int, phrase: tuple[str, ...]) -> bool:
    return tuple(word.stem for word in found[at : at + len(phrase)]) == phrase


@functools.cache
def _phrases(category_id: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the lexicon as stems, longest phrase first."""
    lexicon = categories()[category_id].lexicon
    stems = {
        tuple(word.stem for word in words(term)): weight
        for weight, terms in sorted(lexicon.items())
        for term in terms
    }
    return tuple((weight, phrase) for phrase, weight in stems.items())


@functools.cache
def _prototypes() -> tuple[Bm25, tuple[str, ...]]:
    """Return an index over all prototypes, and the category of each prototype."""
    pairs = [(c.id, text) for c in categories().values() for text in c.prototypes]
    index = Bm25.of(content_stems(text) for _, text in pairs)
    return index, tuple(owner for owner, _ in pairs)
