"""Read a template as CloudFormation would deploy it, with given parameters."""

from __future__ import annotations

from typing import Any

from tests.infra.check.render import render
from tests.infra.check.templates import INFRA
from tests.infra.check.templates import read as parsed


def read(name: str, **parameters: Any) -> dict[str, Any]:
    """Return a template's resources and parameters, with every function resolved.

    A parameter that is not given has its default, or nothing. A reference to a
    resource is its name, or its logical name within the template.
    """
    template = parsed(INFRA / f"{name}.yaml")
    declared = template["Parameters"]
    unknown = parameters.keys() - declared.keys()
    if unknown:
        raise KeyError(f"{name} has no parameter {', '.join(sorted(unknown))}")
    defaults = {key: found.get("Default", "") for key, found in declared.items()}
    resources = render(name, template, defaults | parameters).resources
    return {"Parameters": declared, "Resources": resources}
