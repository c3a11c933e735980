"""The templates with their parameters and commands, for who deploys by other means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from orchestrator.infra import templates
from orchestrator.infra.deploy import Deploy, needed
from orchestrator.infra.environment import Environment
from orchestrator.infra.parameters import decide, refuse_unknown
from orchestrator.infra.parts import Part
from orchestrator.infra.templates import Template


def render(told: Deploy) -> dict[str, str]:
    """Return files by name: templates, parameters, the stack policy, the commands."""
    environment = told.environment
    meant = told.parts or needed(environment, ())
    loaded = [templates.load(part) for part in Part if part in meant]
    refuse_unknown(environment, loaded)
    files: dict[str, str] = {}
    for template in loaded:
        files[f"{template.part}.yaml"] = template.text
        rows = _parameters(template, environment)
        files[f"{template.part}.parameters.json"] = json.dumps(rows, indent=2) + "\n"
    if Part.DATA in meant:
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
    """Return what the AWS CLI takes; what an earlier stack tells is left to be filled.

    Such a value, and one that nobody gives, stands in angle brackets.
    """
    outputs = {
        part: {
            name: f"<output {name} of the stack {environment.stack(part)}>"
            for name in templates.load(part).outputs
        }
        for part in template.part.before
    }
    handed = environment.handed(template.part, outputs)
    values = decide(template, environment, handed, {})
    said = {**values.said, **dict.fromkeys(values.missing, "<to be set>")}
    return [{"ParameterKey": k, "ParameterValue": v} for k, v in said.items()]


def _commands(template: Template, environment: Environment) -> Iterator[str]:
    part, stack = template.part, environment.stack(template.part)
    region = f" --region {environment.region}" if environment.region else ""
    wanted = [
        f"aws cloudformation deploy{region} --stack-name {stack}",
        f"--template-file {part}.yaml",
        f"--parameter-overrides file://{part}.parameters.json",
        "--no-fail-on-empty-changeset",
    ]
    if template.capabilities:
        wanted.append(f"--capabilities {' '.join(template.capabilities)}")
    yield " \\\n  ".join(wanted)
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
