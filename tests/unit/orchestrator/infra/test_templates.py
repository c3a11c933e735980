"""The shipped templates exist, fit a request, and fit together."""

from __future__ import annotations

import tomllib

import pytest

from piecework.errors import UsageError
from piecework_orchestrator.infra import templates
from piecework_orchestrator.infra.environment import (
    OPTION_PARAMETERS,
    Environment,
    resolve_parameters,
)
from piecework_orchestrator.infra.templates import Part


@pytest.mark.parametrize("part", Part)
def test_a_template_ships_and_fits_a_request(part: Part) -> None:
    found = templates.load(part)

    assert {"App", "Env"} <= set(found.parameters)
    assert found.body["Resources"]
    written = templates.read(f"{part}.yaml")
    assert found.body == templates.parse(written), "a comment line inside a value"
    # GetTemplate returns `?` for others, so `infra status` would always say "differs".
    assert written.isascii()


def test_image_pipelines_and_contacts_are_the_only_required_parameters() -> None:
    common = {"Image": "x", "Pipelines": "y", "Owner": "us", "Runbook": "wiki"}
    environment = Environment("a", "b", shared_parameters=common)
    missing = {}
    for part in Part:
        handed = {
            n: "" for earlier in part.earlier for n in templates.load(earlier).outputs
        }
        missing[part] = resolve_parameters(
            templates.load(part), environment, handed, {}
        ).missing

    assert {()} == set(missing.values())


def test_every_named_option_is_a_parameter_of_the_service_stack() -> None:
    assert set(OPTION_PARAMETERS.values()) <= set(
        templates.load(Part.SERVICE).parameters
    )


def test_only_named_roles_need_a_capability() -> None:
    assert ["CAPABILITY_NAMED_IAM"] == templates.load(Part.ROLES).capabilities
    assert [] == templates.load(Part.DATA).capabilities


def test_a_template_that_is_too_long_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(templates, "read", lambda _: "x" * 51_201)

    with pytest.raises(UsageError) as refused:
        templates.load(Part.DATA)

    assert "infra.template.too_large" == refused.value.code


def test_the_wheel_contains_the_files_of_a_checkout() -> None:
    root = templates.CHECKOUT.parent
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    names = [*(f"{part}.yaml" for part in Part), templates.STACK_POLICY]
    place = templates.PACKAGED.relative_to(root / "orchestrator")

    assert {f"infra/{name}": str(place / name) for name in names}.items() <= (
        wheel.items()
    )


def test_a_missing_template_is_an_error() -> None:
    with pytest.raises(UsageError) as refused:
        templates.read("nothing.yaml")

    assert "infra.template.missing" == refused.value.code
