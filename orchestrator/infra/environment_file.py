"""The file of an environment: what a deploy would else be told each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from orchestrator.infra.parts import Part
from piecework.errors import UsageError

Value = str | int | float | bool | list[str]


class File(BaseModel):
    """An environment file, such as `prod.yaml`.

    Attributes:
        everywhere: Parameters for each stack that knows one of that name.
        parameters: Parameters for one stack.
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
    everywhere: dict[str, Value] = Field(default_factory=dict)
    parameters: dict[Part, dict[str, Value]] = Field(default_factory=dict)

    @field_validator("pipelines", mode="before")
    @classmethod
    def _one_word(cls, value: object) -> object:
        return as_text(value) if isinstance(value, list) else value


def read_file(path: Path) -> File:
    """Read an environment file.

    Raises:
        UsageError: `infra.config.invalid`.
    """
    try:
        return File.model_validate(yaml.safe_load(path.read_text("utf-8")) or {})
    except ValidationError as error:
        said = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}"
            for e in error.errors(include_url=False, include_input=False)
        )
        raise _bad_file(path, said) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise _bad_file(path, str(error)) from error


def as_text(value: Any) -> str:
    """Return a value as a template's parameter has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _bad_file(path: Path, why: str) -> UsageError:
    return UsageError(f"{path}: {why}.", code="infra.config.invalid", file=str(path))
