"""The stacks of an environment; a separate module, so that `--help` loads fast."""

from __future__ import annotations

from enum import StrEnum


class Part(StrEnum):
    """One stack; a stack depends only on stacks before it in this order."""

    DATA = "data"
    NETWORK = "network"
    ROLES = "roles"
    SERVICE = "service"
    SCALING = "scaling"
    ALARMS = "alarms"

    @property
    def earlier(self) -> tuple[Part, ...]:
        """The stacks whose outputs can be parameters of this stack."""
        order = tuple(Part)
        return order[: order.index(self)]


def stack_name(app: str, env: str, part: Part) -> str:
    """Return the name of a stack; the templates use the same two words as prefix."""
    return f"{app}-{env}-{part}"
