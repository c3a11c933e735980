r"""A pytest plugin that writes down every expression that piecework sends.

    pytest -p verification.conformance.recorder tests/store \
        tests/scenarios/test_{saga,deletion,sleep}.py

Each is kept with the values that it was first sent with.
"""

from __future__ import annotations

import json
from typing import Any

from piecework.store.table import ItemWrite
from verification.conformance.piecework_writes import RECORD

found: dict[tuple[str, str, str], dict[str, Any]] = {}


def pytest_configure() -> None:
    request: Any = ItemWrite.request

    def recorded(self: ItemWrite) -> dict[str, Any]:
        sent: dict[str, Any] = request(self)
        values = sent.get("ExpressionAttributeValues", {})
        # Cost items use attribute names of their own, which are not expressions.
        if (self.update or self.condition) and "op__" not in self.update:
            key = self.kind, self.update, self.condition
            row = dict(zip(("kind", "update", "condition"), key, strict=True))
            found.setdefault(key, row | {"values": values})
        return sent

    ItemWrite.request = recorded  # type: ignore[method-assign]


def pytest_unconfigure() -> None:
    rows = [found[key] for key in sorted(found)]
    RECORD.write_text("".join(f"{json.dumps(row, sort_keys=True)}\n" for row in rows))
