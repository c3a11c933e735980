"""The stacks that an environment is made of: apart, so that `--help` loads no more."""

from __future__ import annotations

from enum import StrEnum


class Part(StrEnum):
    """One stack, in the order in which they stand on each other."""

    DATA = "data"
    NETWORK = "network"
    ROLES = "roles"
    SERVICE = "service"
    SCALING = "scaling"
    ALARMS = "alarms"

    @property
    def before(self) -> tuple[Part, ...]:
        """The stacks whose outputs may be handed to this one."""
        order = tuple(Part)
        return order[: order.index(self)]


def stack_name(app: str, env: str, part: Part) -> str:
    """Return the name of a stack; the templates build on the same two words."""
    return f"{app}-{env}-{part}"
