"""Read the one PartiQL statement that Piecework sends: an INSERT with parameters.

    INSERT INTO "table" VALUE {'pk': ?, 'sk': ?, 'status': ?}

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.insert.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from piecework_simulation.aws.errors import InvalidError

#: Statements that one batch may have.
MOST_STATEMENTS = 25
INSERT = re.compile(
    r"""INSERT INTO "([\w.-]+)" VALUE \{('\w+': \?(?:, '\w+': \?)*)\}"""
)
NAME = re.compile(r"'(\w+)'")


@lru_cache(maxsize=1024)
def read_statement(statement: str) -> tuple[str, tuple[str, ...]]:
    """Return the table of a statement, and the names of its attributes in order.

    Raises:
        NotImplementedError: It is another statement.
    """
    found = INSERT.fullmatch(statement)
    if found is None:
        raise NotImplementedError(f"the statement {statement}")
    return found[1], tuple(NAME.findall(found[2]))


def read_insert(statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return a statement as the Put that it stands for: a new item, or an error.

    Raises:
        InvalidError: AWS refuses the statement as invalid.
    """
    table, names = read_statement(statement["Statement"])
    values = statement.get("Parameters", [])
    if len(values) != len(names):
        message = "Number of parameters in request and statement don't match."
        raise InvalidError(message)
    if len(set(names)) < len(names):
        raise InvalidError("Duplicate attribute in the statement.")
    return {
        "TableName": table,
        "Item": dict(zip(names, values, strict=True)),
        "ConditionExpression": "attribute_not_exists(pk)",
    }


def check_number(statements: Any) -> None:
    """Raise if a batch has no statements, or too many."""
    if not 0 < len(statements) <= MOST_STATEMENTS:
        raise InvalidError(
            "1 validation error detected: Value at 'statements' failed to satisfy"
            " constraint: Member must have length less than or equal to 25, and"
            " greater than or equal to 1"
        )
