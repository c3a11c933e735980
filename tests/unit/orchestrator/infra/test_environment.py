"""What is wanted: options before the file, the file before the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.infra.environment import Options, pairs, wanted
from orchestrator.infra.parameters import refuse_unknown
from orchestrator.infra.parts import Part
from orchestrator.infra.templates import load
from piecework.errors import UsageError

FILE = """
env: prod
region: eu-central-1
image: registry/shop@sha256:1
pipelines: [shop.review, shop.sums]
vpc: vpc-1
everywhere: {Concurrency: 8}
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


def test_a_file_says_what_else_would_be_typed_each_time(file: Path) -> None:
    found = wanted(Options(config=file))

    assert ("piecework-prod", "eu-central-1") == (found.name, found.region)
    assert {
        "Image": "registry/shop@sha256:1",
        "Pipelines": "shop.review,shop.sums",
        "VpcId": "vpc-1",
        "SubnetIds": "subnet-a,subnet-b",
        "Concurrency": "8",
    } == found.common
    assert {"Encryption": "customer", "Protect": "true"} == found.of_part[Part.DATA]
    values = {"OnDemandBase": "1", "LogLevel": "info"}
    assert values == found.of_part[Part.SERVICE]
    assert found.own_vpc


def test_an_option_outweighs_the_file(file: Path) -> None:
    options = Options(
        env="beta", region="us-east-1", config=file, short={"image": "other", "vpc": ""}
    )

    found = wanted(options)

    assert ("piecework-beta", "us-east-1") == (found.name, found.region)
    assert ("other", "vpc-1") == (found.common["Image"], found.common["VpcId"])


def test_the_settings_say_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIECEWORK_APP", "shop")
    monkeypatch.setenv("PIECEWORK_ENV", "beta")

    assert "shop-beta" == wanted(Options()).name


def test_an_environment_has_to_be_named() -> None:
    with pytest.raises(UsageError, match="which environment") as refused:
        wanted(Options())

    assert "infra.config.invalid" == refused.value.code


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("regoin: x", "regoin"),
        ("parameters: {dada: {A: b}}", "parameters.dada"),
        ("- a list", "dictionary"),
        ("{", "flow node"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_what_is_wrong(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "prod.yaml"
    path.write_text(text)

    with pytest.raises(UsageError, match=said) as refused:
        wanted(Options(env="prod", config=path))

    assert "infra.config.invalid" == refused.value.code
    assert str(path) in refused.value.message


def test_a_parameter_may_hold_an_equals_sign() -> None:
    assert {"Secret1": "KEY=arn:x"} == pairs(["Secret1=KEY=arn:x"])


@pytest.mark.parametrize("word", ["Size", "=large", "a b=c"])
def test_a_word_that_is_no_parameter_is_refused(word: str) -> None:
    with pytest.raises(UsageError) as refused:
        pairs([word])

    assert "infra.parameter.invalid" == refused.value.code


def test_the_file_of_the_page_is_one_and_its_parameters_are_those_of_the_templates(
    tmp_path: Path,
) -> None:
    page = Path(__file__).parents[4] / "docs/deploy.md"
    _, _, rest = page.read_text("utf-8").partition("```yaml\n")
    path = tmp_path / "prod.yaml"
    path.write_text(rest.partition("```")[0])

    found = wanted(Options(config=path))

    assert "piecework-prod" == found.name
    refuse_unknown(found, [load(part) for part in Part])
