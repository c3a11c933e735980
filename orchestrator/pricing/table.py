"""The prices: those that come with us, and in their place those that somebody gives."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from piecework.errors import UsageError
from piecework.metering.cost_meter import plain

SHIPPED = Path(__file__).parent / "prices.yaml"

Name: TypeAlias = Literal[
    "sqs_request",
    "dynamodb_write_unit",
    "dynamodb_read_unit",
    "dynamodb_gb_month",
    "dynamodb_backup_gb_month",
    "s3_put",
    "s3_get",
    "s3_gb_month",
    "fargate_vcpu_hour",
    "fargate_gb_hour",
    "fargate_arm_vcpu_hour",
    "fargate_arm_gb_hour",
    "interface_endpoint_hour",
    "nat_gateway_hour",
    "public_ipv4_hour",
    "alarm_month",
    "composite_alarm_month",
    "dashboard_month",
    "metric_month",
    "logs_gb",
    "logs_gb_month",
    "kms_key_month",
]
NAMES: tuple[Name, ...] = get_args(Name)
Tokens: TypeAlias = Literal["tokens_in", "tokens_out"]


class Price(BaseModel):
    """What so many of something cost, and who says so."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    usd: float = Field(ge=0, allow_inf_nan=False)
    per: float = Field(default=1, gt=0, allow_inf_nan=False)
    unit: str = ""
    source: str = "given"
    seen: date | str = ""

    @property
    def of_one(self) -> float:
        """What one costs."""
        return self.usd / self.per


class Prices(BaseModel):
    """A table of prices, by region."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dated: date
    regions: dict[str, dict[Name, Price]] = {}
    models: dict[str, dict[Tokens, Price]] = {}

    def of(self, region: str, name: Name) -> Price:
        """Return a price.

        Raises:
            UsageError: `config.price.missing`.
        """
        found = self.regions.get(region, {}).get(name)
        if found is None:
            known = ", ".join(sorted(self.regions))
            message = f"There is no price of {name} in {region}; there are {known}."
            raise UsageError(message, code="config.price.missing")
        return found

    def of_model(self, name: str) -> dict[Tokens, Price]:
        """Return the prices of a model, whose name was made a plain word."""
        found = {plain(known): prices for known, prices in self.models.items()}
        return found.get(name, {})


def load_prices(given: Path | None = None) -> Prices:
    """Read the prices that come with us, and those of a file over them.

    Raises:
        UsageError: `config.prices.invalid`, naming what is wrong.
    """
    shipped = read(SHIPPED)
    if given is None:
        return shipped
    over = read(given)
    regions = {
        region: {**shipped.regions.get(region, {}), **over.regions.get(region, {})}
        for region in {**shipped.regions, **over.regions}
    }
    models = {**shipped.models, **over.models}
    return Prices(dated=over.dated, regions=regions, models=models)


def read(path: Path) -> Prices:
    """Read one file."""
    try:
        return Prices.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        said = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}"
            for e in error.errors(include_url=False, include_input=False)[:3]
        )
        raise refused(path, said) from error
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise refused(path, f"it cannot be read ({type(error).__name__})") from error


def refused(path: Path, why: str) -> UsageError:
    """Return the refusal of a file."""
    message = f"{path} is no table of prices: {why}."
    return UsageError(message, code="config.prices.invalid")
