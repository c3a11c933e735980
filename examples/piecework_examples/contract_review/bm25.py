"""BM25 over a handful of prototype sentences.

    score(q, d) = sum over the terms t of q:  idf(t) * tf * (k1 + 1)
                                              / (tf + k1 * (1 - b + b * |d| / avgdl))
    idf(t)      = ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5))

Source: S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25
and Beyond", Foundations and Trends in Information Retrieval 3(4), 2009. The 1 inside
the logarithm (as in Lucene) keeps common terms from counting negative.

Own code, because the libraries bring numpy for an index of fifty sentences and do
not say which words fired.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bm25:
    """The term counts of each document, and how many documents hold a term."""

    documents: tuple[Counter[str], ...]
    holding: Counter[str]
    average_length: float
    k1: float = 1.2
    b: float = 0.75

    @classmethod
    def of(
        cls, documents: Iterable[Sequence[str]], k1: float = 1.2, b: float = 0.75
    ) -> Bm25:
        """Index documents that are given as lists of terms."""
        counts = tuple(Counter(document) for document in documents)
        holding: Counter[str] = Counter()
        for document in counts:
            holding.update(document.keys())
        total = sum(document.total() for document in counts)
        return cls(counts, holding, total / max(1, len(counts)), k1, b)

    def idf(self, term: str) -> float:
        """Return how telling a term is."""
        n = self.holding[term]
        return math.log(1 + (len(self.documents) - n + 0.5) / (n + 0.5))

    def weigh(self, terms: Iterable[str], number: int) -> dict[str, float]:
        """Return what each distinct term of a query adds to a document's score."""
        document = self.documents[number]
        length = document.total() / self.average_length if self.average_length else 0
        norm = self.k1 * (1 - self.b + self.b * length)
        return {
            term: self.idf(term) * tf * (self.k1 + 1) / (tf + norm)
            for term in dict.fromkeys(terms)
            if (tf := document[term])
        }

    def score(self, terms: Iterable[str], number: int) -> float:
        """Return how well a document answers a query."""
        return sum(self.weigh(terms, number).values())
