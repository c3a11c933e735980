"""The wanted environment: options override the file, the file overrides settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from piecework.errors import UsageError
from piecework_orchestrator.infra.environment import (
    Options,
    parse_parameters,
    refuse_unknown,
    resolve_environment,
)
from piecework_orchestrator.infra.templates import Part, load

FILE = """
env: prod
region: eu-central-1
image: registry/shop@sha256:1
pipelines: [shop.review, shop.sums]
vpc: vpc-1
common_parameters: {MaxChunks: 8}
subnets: [subnet-a, subnet-b]
parameters:
  data: {Encryption: customer, Protect: true}
  service: {OnDemandBase: 1, LogLevel: info}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prod.yaml"
    path.write_text(FILE)
    return path


def test_an_environment_file_sets_options_and_parameters(file: Path) -> None:
    found = resolve_environment(Options(config=file))

    assert ("piecework-prod", "eu-central-1") == (found.name, found.region)
    assert {
        "Image": "registry/shop@sha256:1",
        "Pipelines": "shop.review,shop.sums",
        "VpcId": "vpc-1",
        "SubnetIds": "subnet-a,subnet-b",
        "MaxChunks": "8",
    } == found.shared_parameters
    assert {"Encryption": "customer", "Protect": "true"} == found.part_parameters[
        Part.DATA
    ]
    values = {"OnDemandBase": "1", "LogLevel": "info"}
    assert values == found.part_parameters[Part.SERVICE]
    assert found.uses_existing_vpc
    assert found.tags is None


def test_a_tag_of_the_command_is_added_to_those_of_the_file(file: Path) -> None:
    file.write_text(f"{FILE}\ntags: {{}}")
    tags = [("cost=17",), ()]
    found = [resolve_environment(Options(config=file, tags=words)) for words in tags]
    assert [{"cost": "17"}, {}] == [each.tags for each in found]


def test_an_option_overrides_the_file(file: Path) -> None:
    options = Options(
        env="beta",
        region="us-east-1",
        config=file,
        shorthand={"image": "other", "vpc": ""},
        parameters=["OnDemandBase=7"],
    )

    found = resolve_environment(options)

    assert ("piecework-beta", "us-east-1") == (found.name, found.region)
    service = found.parameters_for(Part.SERVICE)
    assert ("other", "vpc-1", "7", "info") == tuple(
        service[name] for name in ("Image", "VpcId", "OnDemandBase", "LogLevel")
    )


def test_settings_are_used_for_missing_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIECEWORK_APP", "shop")
    monkeypatch.setenv("PIECEWORK_ENV", "beta")

    assert "shop-beta" == resolve_environment(Options()).name


def test_a_missing_environment_name_is_refused() -> None:
    with pytest.raises(UsageError, match="No environment") as refused:
        resolve_environment(Options())

    assert "infra.config.invalid" == refused.value.code


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("regoin: x", "regoin"),
        ("parameters: {dada: {A: b}}", "parameters.dada"),
        ("- a list", "dictionary"),
        ("{", "flow node"),
        ("env: 2026-13-01", "month must be"),
    ],
)
def test_an_invalid_file_is_refused_with_the_problem(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "prod.yaml"
    path.write_text(text)

    with pytest.raises(UsageError, match=said) as refused:
        resolve_environment(Options(env="prod", config=path))

    assert "infra.config.invalid" == refused.value.code
    assert str(path) in refused.value.message


def test_a_parameter_may_hold_an_equals_sign() -> None:
    assert {"Secret1": "KEY=arn:x"} == parse_parameters(["Secret1=KEY=arn:x"])


@pytest.mark.parametrize("word", ["Size", "=large", "a b=c"])
def test_a_word_without_key_and_value_is_refused(word: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_parameters([word])

    assert "infra.parameter.invalid" == refused.value.code


def test_the_environment_file_in_the_docs_is_valid(
    tmp_path: Path,
) -> None:
    page = Path(__file__).parents[4] / "docs/deploy.md"
    _, _, rest = page.read_text("utf-8").partition("```yaml\n")
    path = tmp_path / "prod.yaml"
    path.write_text(rest.partition("```")[0])

    found = resolve_environment(Options(config=path))

    assert "piecework-prod" == found.name
    refuse_unknown(found, [load(part) for part in Part])
