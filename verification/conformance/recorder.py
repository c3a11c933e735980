r"""A pytest plugin that writes down every expression that piecework sends.

    pytest -p verification.conformance.recorder tests/store \
        tests/scenarios/test_{saga,deletion,sleep}.py

Each is kept with the values that it was first sent with.
"""

from __future__ import annotations

import base64
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
    lines = (json.dumps(row, sort_keys=True, default=as_text) for row in rows)
    RECORD.write_text("".join(f"{line}\n" for line in lines))


def as_text(content: bytes) -> str:
    """Return the bytes of a value as the wire has them."""
    return base64.b64encode(content).decode()
