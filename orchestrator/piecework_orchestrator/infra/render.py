"""Render templates, parameters and AWS CLI commands, to deploy with another tool."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from piecework_orchestrator.infra import templates
from piecework_orchestrator.infra.deploy import DeployRequest, required_parts
from piecework_orchestrator.infra.environment import (
    Environment,
    refuse_unknown,
    resolve_parameters,
)
from piecework_orchestrator.infra.templates import Part, Template


def render(request: DeployRequest) -> dict[str, str]:
    """Return files by name: templates, parameters, the stack policy, the commands."""
    environment = request.environment
    chosen = request.parts or required_parts(environment, ())
    loaded = [templates.load(part) for part in Part if part in chosen]
    refuse_unknown(environment, loaded)
    files: dict[str, str] = {}
    for template in loaded:
        files[f"{template.part}.yaml"] = template.text
        rows = _parameters(template, environment)
        files[f"{template.part}.parameters.json"] = json.dumps(rows, indent=2) + "\n"
    if Part.DATA in chosen:
        policy = templates.read(templates.STACK_POLICY)
        files[templates.STACK_POLICY] = policy
    lines = [line for t in loaded for line in _commands(t, environment)]
    files["commands.txt"] = "\n".join(lines) + "\n"
    return files


def write(files: dict[str, str], folder: Path) -> list[str]:
    """Write the files; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [str(folder / name) for name in files]


def _parameters(template: Template, environment: Environment) -> list[dict[str, str]]:
    """Return the parameters in the form that the AWS CLI takes.

    Outputs of earlier stacks and missing values are placeholders in angle brackets.
    """
    outputs = {
        part: {
            name: f"<output {name} of the stack {environment.stack(part)}>"
            for name in templates.load(part).outputs
        }
        for part in template.part.earlier
    }
    inherited = environment.inherited_parameters(template.part, outputs)
    values = resolve_parameters(template, environment, inherited, {})
    rows = {**values.explicit, **dict.fromkeys(values.missing, "<to be set>")}
    return [{"ParameterKey": k, "ParameterValue": v} for k, v in rows.items()]


def _commands(template: Template, environment: Environment) -> Iterator[str]:
    part, stack = template.part, environment.stack(template.part)
    quoted = shlex.quote(environment.region)
    region = f" --region {quoted}" if environment.region else ""
    words = [
        f"aws cloudformation deploy{region} --stack-name {stack}",
        f"--template-file {part}.yaml",
        f"--parameter-overrides file://{part}.parameters.json",
        "--no-fail-on-empty-changeset",
    ]
    if environment.role_arn:
        words.append(f"--role-arn {shlex.quote(environment.role_arn)}")
    if tags := environment.tags:
        words.append(f"--tags {shlex.join(f'{k}={v}' for k, v in tags.items())}")
    if template.capabilities:
        words.append(f"--capabilities {' '.join(template.capabilities)}")
    yield " \\\n  ".join(words)
    if part is Part.DATA:
        yield (
            f"aws cloudformation set-stack-policy{region} --stack-name {stack}"
            f" \\\n  --stack-policy-body file://{templates.STACK_POLICY}"
        )
        yield (
            f"aws cloudformation update-termination-protection{region}"
            f" \\\n  --stack-name {stack} --enable-termination-protection"
        )
    yield (
        f"aws cloudformation describe-stacks{region} --stack-name {stack}"
        " --query 'Stacks[0].Outputs' --output table"
    )
