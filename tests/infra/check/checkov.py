"""Have checkov read every variant of every template, in an environment of its own.

It pins another boto3 than ours. It does not resolve conditions, so it reads the
rendered templates. `checkov.yaml` lists the accepted findings with their reasons.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests import tools
from tests.infra.check.render import Stack
from tests.infra.check.templates import Templates

REASONS = Path(__file__).with_name("checkov.yaml")


@dataclass(slots=True)
class Verdict:
    """What checkov said of all templates."""

    passed: int = 0
    failed: set[str] = field(default_factory=set)
    #: How many resources each reason speaks for, by the check's id.
    skipped: Counter[str] = field(default_factory=Counter)


def run(templates: Templates) -> Verdict:
    """Check all templates.

    Raises:
        NotInstalledError: With what the installer said.
    """
    checkov = tools.bin_of("checkov") / "checkov"
    stacks = {
        f"{stack.name}-{number}.json": stack
        for number, stack in enumerate(templates.stacks())
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, stack in stacks.items():
            (Path(folder) / name).write_text(json.dumps(stack.as_template()), "utf-8")
        told = subprocess.run(
            [str(checkov), "--directory", folder, *ARGUMENTS],
            capture_output=True,
            text=True,
            check=False,
        )
    return judged(json.loads(told.stdout), stacks)


#: Offline: it would ask its maker for guidelines.
ARGUMENTS = (
    *("--framework", "cloudformation"),
    *("--skip-download", "--compact", "--quiet", "--output", "json"),
)


def judged(report: dict[str, Any], stacks: dict[str, Stack]) -> Verdict:
    """Hold what failed against the reasons; a reason that nothing needs fails, too."""
    reasons = yaml.safe_load(REASONS.read_text(encoding="utf-8"))
    verdict = Verdict(passed=report["summary"]["passed"])
    if report["summary"]["parsing_errors"]:
        verdict.failed.add("checkov could not parse a template")
    spoken_for: set[tuple[str, str]] = set()
    for failure in report["results"]["failed_checks"]:
        stack = stacks[Path(failure["file_path"]).name]
        check, resource = failure["check_id"], failure["resource"]
        if any(speaks_for(reason, check, resource, stack) for reason in reasons):
            spoken_for.add((check, f"{stack.name}: {resource}"))
        else:
            said = f"{check} {stack.name}: {resource}: {failure['check_name']}"
            verdict.failed.add(said)
    verdict.skipped = Counter(check for check, _ in spoken_for)
    needless = {reason["check"] for reason in reasons} - verdict.skipped.keys()
    verdict.failed |= {f"{check}: a reason that nothing needs" for check in needless}
    return verdict


def speaks_for(reason: dict[str, Any], check: str, resource: str, stack: Stack) -> bool:
    """Return whether a reason covers what failed, under the parameters of the stack."""
    if reason["check"] != check or not resource.startswith(f"{reason['type']}."):
        return False
    return not any(
        stack.parameters.get(name) == value or (value == "*" and stack.parameters[name])
        for name, value in reason["unless"].items()
    )
