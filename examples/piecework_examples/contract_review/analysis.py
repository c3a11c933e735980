"""Let one specialist read a clause: rules over sentences, each hit with its words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from piecework_examples.contract_review.findings import Finding
from piecework_examples.contract_review.playbook import Rule, Specialist, specialists
from piecework_examples.contract_review.words import sentences

_LONGEST_QUOTE: Final = 400


def analyse(text: str, specialist_id: str) -> list[Finding]:
    """Return what one specialist finds in a clause, worst first, one a sentence."""
    specialist = specialists()[specialist_id]
    found = [
        finding
        for rule in specialist.rules
        if _concerns(text, rule)
        for finding in _apply(text, specialist, rule)
    ]
    return merged(found)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Drop what a specialist says twice of the same words; order by severity, place."""
    kept: list[Finding] = []
    for finding in sorted(findings, key=lambda f: (f.severity.rank, f.start, f.rule)):
        if not any(_same(finding, other) for other in kept):
            kept.append(finding)
    return kept


def _concerns(text: str, rule: Rule) -> bool:
    near = not rule.clause_with or any(p.search(text) for p in rule.clause_with)
    return near and not any(p.search(text) for p in rule.clause_without)


def _apply(text: str, specialist: Specialist, rule: Rule) -> Iterator[Finding]:
    for start, end in sentences(text):
        sentence = text[start:end]
        fired = _fired(sentence, rule)
        if fired is None:
            continue
        quote = (
            sentence if len(sentence) <= _LONGEST_QUOTE else _around(sentence, fired)
        )
        at = start + sentence.index(quote)
        yield Finding(
            specialist=specialist.id,
            rule=rule.id,
            severity=rule.severity,
            title=rule.title,
            quote=quote,
            start=at,
            end=at + len(quote),
            fired=tuple(dict.fromkeys(_whole(sentence, match) for match in fired)),
            recommendation=rule.recommendation,
        )


def _fired(sentence: str, rule: Rule) -> list[re.Match[str]] | None:
    """Return what matched, in the order of the sentence; None if the rule is silent."""
    hits = _matches(sentence, rule.any)
    needed = [pattern.search(sentence) for pattern in rule.with_]
    if not hits or not all(needed) or _matches(sentence, rule.without):
        return None
    return sorted([*hits, *filter(None, needed)], key=lambda match: match.start())


def _matches(sentence: str, patterns: Sequence[re.Pattern[str]]) -> list[re.Match[str]]:
    return [hit for pattern in patterns if (hit := pattern.search(sentence))]


def _whole(sentence: str, match: re.Match[str]) -> str:
    """Return what matched up to the last whole word."""
    cut = match.end() < len(sentence) and sentence[match.end()].isalnum()
    said = match.group()
    return said.rsplit(None, 1)[0] if cut and " " in said else said.rstrip()


def _around(sentence: str, fired: Sequence[re.Match[str]]) -> str:
    """Return the part of a long sentence that holds the first match, at word bounds."""
    first = max(0, fired[0].start() - _LONGEST_QUOTE // 4)
    start = sentence.rfind(" ", 0, first) + 1 if first else 0
    return sentence[start : start + _LONGEST_QUOTE].rsplit(" ", 1)[0]


def _same(one: Finding, other: Finding) -> bool:
    overlap = min(one.end, other.end) - max(one.start, other.start)
    words = set(one.fired) & set(other.fired)
    return one.specialist == other.specialist and overlap > 0 and bool(words)
