"""Tokenize an expression and resolve its placeholders.

Piecework never writes nested paths; they raise `NotImplementedError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from piecework_simulation.aws.errors import InvalidError

RESERVED = frozenset(
    (Path(__file__).parent / "reserved_words.txt").read_text(encoding="utf-8").split()
)
WORD = re.compile(
    r"\s*(?:(?P<token>[#:]\w+|[A-Za-z_]\w*|<>|<=|>=|[=<>(),+\-.\[\]]|\d+)|(?P<end>$))"
)
END = "<EOF>"
#: The types whose values have an order.
ORDERED = frozenset({"S", "N", "B"})


class Reader:
    """Reads an expression from left to right, and records what it used.

    Attributes:
        names: The used name placeholders, with `#`.
        values: The used value placeholders, with `:`.
        demands: The types that operators require of values: value, types, operator.
        bounds: The lower and upper bound values of each BETWEEN.
    """

    def __init__(self, section: str, text: str, names: Mapping[str, str]) -> None:
        self.section = section
        self.names: set[str] = set()
        self.values: set[str] = set()
        self.demands: list[tuple[str, frozenset[str], str]] = []
        self.bounds: list[tuple[str, str]] = []
        self._known = names
        if not text:
            raise self.invalid("The expression can not be empty;")
        self._words = list(self._cut(text))
        self._at = 0

    def _cut(self, text: str) -> list[str]:
        words: list[str] = []
        at = 0
        while found := WORD.match(text, at):
            if found["token"] is None:
                return [*words, END]
            words.append(found["token"])
            at = found.end()
        raise self.syntax(text[at:].strip()[:1])

    @property
    def word(self) -> str:
        """The next token."""
        return self._words[self._at]

    @property
    def mark(self) -> int:
        """The place in the expression."""
        return self._at

    def between(self, begin: int, end: int) -> list[str]:
        """Return the tokens from `begin` up to `end`."""
        return self._words[begin:end]

    def take(self) -> str:
        """Return the next token and advance."""
        word = self._words[self._at]
        self._at = min(self._at + 1, len(self._words) - 1)
        return word

    def skip(self, keyword: str) -> bool:
        """Skip the next token if it is this keyword or sign; return whether it was."""
        found = self.word.upper() == keyword
        if found:
            self.take()
        return found

    def expect(self, sign: str) -> None:
        """Skip a required sign."""
        if not self.skip(sign):
            raise self.syntax(self.word)

    def calls(self, function: str) -> bool:
        """Skip a function name and its bracket; return whether they were next."""
        follows = self._words[min(self._at + 1, len(self._words) - 1)]
        found = self.word == function and follows == "("
        if found:
            self._at += 2
        return found

    @property
    def at_path(self) -> bool:
        """Whether the next token is an attribute name."""
        return self.word[0] in "#_" or self.word[0].isalpha()

    def path(self) -> str:
        """Return the next attribute, by its real name."""
        if not self.at_path:
            raise self.syntax(self.word)
        word = self.take()
        if self.word in {".", "["}:
            raise NotImplementedError(f"a nested path: {word}{self.word}")
        if self.word == "(":
            raise NotImplementedError(f"the function {word}")
        if word[0] != "#":
            if word.upper() in RESERVED:
                text = "Attribute name is a reserved keyword; reserved keyword:"
                raise self.invalid(f"{text} {word}")
            return word
        if word not in self._known:
            raise self.invalid(
                "An expression attribute name used in the document path is not"
                f" defined; attribute name: {word}"
            )
        self.names.add(word)
        return self._known[word]

    def value(self) -> str:
        """Return the placeholder of the next value."""
        if self.word[0] != ":":
            raise self.syntax(self.word)
        word = self.take()
        self.values.add(word)
        return word

    def last(self, argument: str) -> str:
        """Return a function's last argument, past its bracket."""
        self.expect(")")
        return argument

    def demand(self, value: str, types: frozenset[str], operator: str) -> None:
        """Record that an operator requires a value of one of these types."""
        self.demands.append((value, types, operator))

    def demand_ordered(self, at: int, operator: str) -> None:
        """Record that an operator requires an ordered type of the operand at `at`."""
        if self._words[at].startswith(":"):
            self.demand(self._words[at], ORDERED, operator)

    def invalid(self, why: str) -> InvalidError:
        """Return the error of this expression."""
        return InvalidError(f"Invalid {self.section}: {why}")

    def syntax(self, token: str) -> InvalidError:
        """Return the error of an unexpected token."""
        return self.invalid(f'Syntax error; token: "{token}"')
