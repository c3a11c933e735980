"""The file of an environment: options and parameters that every deploy uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from orchestrator.infra.parts import Part
from piecework.errors import UsageError

Value = str | int | float | bool | list[str]


class EnvironmentFile(BaseModel):
    """An environment file, such as `prod.yaml`.

    Attributes:
        common_parameters: Parameters for every stack that declares them.
        parameters: Parameters for one stack, by stack.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    app: str = ""
    env: str = ""
    region: str = ""
    image: str = ""
    pipelines: str = ""
    vpc: str = ""
    subnets: list[str] = Field(default_factory=list)
    security_group: str = ""
    common_parameters: dict[str, Value] = Field(default_factory=dict)
    parameters: dict[Part, dict[str, Value]] = Field(default_factory=dict)

    @field_validator("pipelines", mode="before")
    @classmethod
    def _join_list(cls, value: object) -> object:
        return as_text(value) if isinstance(value, list) else value


def read_file(path: Path) -> EnvironmentFile:
    """Read an environment file.

    Raises:
        UsageError: `infra.config.invalid`.
    """
    try:
        return EnvironmentFile.model_validate(
            yaml.safe_load(path.read_text("utf-8")) or {}
        )
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}"
            for e in error.errors(include_url=False, include_input=False)
        )
        raise _invalid_file(path, problems) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise _invalid_file(path, str(error)) from error


def as_text(value: Any) -> str:
    """Return a value in the form of a template parameter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _invalid_file(path: Path, reason: str) -> UsageError:
    message = f"The environment file {path} is invalid: {reason}."
    return UsageError(message, code="infra.config.invalid", file=str(path))
