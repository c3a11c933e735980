"""Read the shipped prices, and the prices of a user's file that override them."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from piecework.domain.call_usage import NAME_LENGTH
from piecework.errors import UsageError
from piecework.errors.extras import naming_extras

SHIPPED_PRICES = Path(__file__).parent / "prices.yaml"

PriceName: TypeAlias = Literal[
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
    "egress_gb",
    "alarm_month",
    "composite_alarm_month",
    "dashboard_month",
    "metric_month",
    "logs_gb",
    "logs_gb_month",
    "kms_key_month",
]
PRICE_NAMES: tuple[PriceName, ...] = get_args(PriceName)
Tokens: TypeAlias = Literal["tokens_in", "tokens_out"]


class Price(BaseModel):
    """The price of `per` units, with its source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    usd: float = Field(ge=0, allow_inf_nan=False)
    per: float = Field(default=1, gt=0, allow_inf_nan=False)
    unit: str = ""
    source: str = "user"
    checked_on: date | str = ""

    @property
    def unit_price(self) -> float:
        """Price of one unit, in dollars."""
        return self.usd / self.per


class Prices(BaseModel):
    """A table of prices, by region."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dated: date
    regions: dict[str, dict[PriceName, Price]] = {}
    models: dict[str, dict[Tokens, Price]] = {}

    def price(self, region: str, name: PriceName) -> Price:
        """Return a price.

        Raises:
            UsageError: `config.price.missing`.
        """
        found = self.regions.get(region, {}).get(name)
        if found is None:
            known = ", ".join(sorted(self.regions))
            message = f"No price of {name} is known for {region}, only for {known}."
            raise UsageError(message, code="config.price.missing")
        return found

    def model_prices(self, name: str) -> dict[Tokens, Price]:
        """Return the prices of a model by its name as in the records."""
        found = {known[-NAME_LENGTH:]: prices for known, prices in self.models.items()}
        return found.get(name, {})


def load_prices(path: Path | None = None) -> Prices:
    """Read the shipped prices, overridden by those of a file.

    Raises:
        UsageError: `config.prices.invalid`, with the fields that are wrong;
            `cli.extra.missing`.
    """
    shipped = read_prices(SHIPPED_PRICES)
    if path is None:
        return shipped
    overrides = read_prices(path)
    regions = {
        region: shipped.regions.get(region, {}) | overrides.regions.get(region, {})
        for region in {**shipped.regions, **overrides.regions}
    }
    models = {**shipped.models, **overrides.models}
    return Prices(dated=overrides.dated, regions=regions, models=models)


def read_prices(path: Path) -> Prices:
    """Read one file of prices."""
    with naming_extras():
        import yaml  # an extra
    try:
        return Prices.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}"
            for e in error.errors(include_url=False, include_input=False)[:3]
        )
        raise invalid_prices(path, problems) from error
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: month 13
        raise invalid_prices(
            path, f"it cannot be read ({type(error).__name__})"
        ) from error


def invalid_prices(path: Path, reason: str) -> UsageError:
    """Return the error for a file that is not a valid table of prices."""
    message = f"{path} is not a valid table of prices: {reason}."
    return UsageError(message, code="config.prices.invalid")
