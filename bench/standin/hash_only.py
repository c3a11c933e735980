"""A table without a sort key, told to the model, which knows tables with `pk`, `sk`.

Its key is called `pk` there, and every item has the same `sk`. So an item has three
bytes more than on AWS: too few to be seen in units of 1 KB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SK = {"S": "-"}


@dataclass(frozen=True, slots=True)
class HashOnly:
    """A table's key attribute."""

    name: str

    def hash_only_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request to read or write one item in the model's words."""
        if "KeyConditionExpression" in request:
            raise NotImplementedError("a query of a table without a sort key")
        changed = dict(request)
        for part in ("Key", "Item"):
            if part in request:
                rest = dict(request[part])
                changed[part] = {"pk": rest.pop(self.name), "sk": SK, **rest}
        if names := request.get("ExpressionAttributeNames"):
            key = self.name
            changed["ExpressionAttributeNames"] = {
                mark: "pk" if name == key else name for mark, name in names.items()
            }
        return changed

    def full_reply(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        """Return an answer in the words of the table."""
        changed = dict(reply)
        for part in ("Item", "Attributes"):
            if part in reply:
                rest = dict(reply[part])
                key = {self.name: rest.pop("pk")} if "pk" in rest else {}
                rest.pop("sk", None)
                changed[part] = {**key, **rest}
        return changed
