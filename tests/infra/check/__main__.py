"""Check all templates with everything that needs no account, and print the figures.

    python -m tests.infra.check

cfn-lint, the rules and their fixtures, checkov, and a deployment to the embedded
emulator, with what it does not take: that can be shown on AWS alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.apart import NotInstalledError
from tests.infra.check import checkov, emulator
from tests.infra.check.documented import documented
from tests.infra.check.fixtures import load_fixtures
from tests.infra.check.rules import RULES, broken
from tests.infra.check.templates import INFRA, Templates, load
from tests.own_emulator import own_emulator


@dataclass(slots=True)
class Report:
    """What was found wrong, and the figures."""

    wrong: list[str] = field(default_factory=list)
    figures: dict[str, int | str] = field(default_factory=dict)


def main() -> int:
    """Run every check; the last line holds the figures."""
    templates, report = load(), Report()
    say(f"templates: {', '.join(templates.parsed)}")
    for check in (rules, cfn_lint, with_checkov, deployment):
        for line in check(templates, report):
            say(line)
    for line in report.wrong:
        say(f"WRONG {line}")
    say(" ".join(f"{name}={value}" for name, value in report.figures.items()))
    return 1 if report.wrong else 0


def rules(templates: Templates, report: Report) -> Iterator[str]:
    """Hold the templates against the rules, and the rules against their fixtures."""
    fixtures = load_fixtures()
    report.wrong += [f"{said}: {why}" for said, why in broken(templates).items()]
    missed = [
        fixture.name
        for fixture in fixtures
        if next(RULES[fixture.rule](fixture.applied(templates)), None) is None
    ]
    report.wrong += [f"not refused: {name}" for name in missed]
    report.figures |= {"rules": len(RULES), "failing_fixtures": len(fixtures)}
    yield from (f"rule: {said}" for said in RULES)


def cfn_lint(templates: Templates, report: Report) -> Iterator[str]:
    """Run cfn-lint over the files."""
    program = str(Path(sys.executable).with_name("cfn-lint"))
    files = [str(INFRA / f"{name}.yaml") for name in templates.parsed]
    done = subprocess.run(
        [program, "--format", "parseable", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    found = done.stdout.splitlines() or done.stderr.splitlines()[-1:]
    report.wrong += found
    report.figures["cfn_lint"] = len(found)
    yield f"cfn-lint: {len(found)} findings in {len(files)} files"


def with_checkov(templates: Templates, report: Report) -> Iterator[str]:
    """Run checkov over every variant."""
    try:
        verdict = checkov.run(templates)
    except NotInstalledError as error:
        report.wrong.append(f"checkov could not be installed: {error}")
        report.figures |= {"checkov_failed": "none", "checkov_skipped": "none"}
        return
    report.wrong += sorted(verdict.failed)
    report.figures["checkov_failed"] = len(verdict.failed)
    report.figures["checkov_skipped"] = verdict.skipped.total()
    yield f"checkov: {verdict.passed} passed in {len(templates.stacks())} variants"
    for check, number in sorted(verdict.skipped.items()):
        yield f"checkov overruled: {check} on {number} resources"


def deployment(templates: Templates, report: Report) -> Iterator[str]:
    """Deploy to an emulator of our own."""
    with own_emulator(emulator.SERVICES) as running:
        found = emulator.try_out(running, templates)
    report.figures["deployed"] = found.deployed.total()
    report.figures["not_provable"] = len(found.refused)
    said = documented()
    report.wrong += [f"not in the table: {n}" for n in sorted(found.refused - said)]
    report.wrong += [f"taken after all: {n}" for n in sorted(said - found.refused)]
    yield from (f"deployed: {n} {kind}" for kind, n in sorted(found.deployed.items()))
    yield from (f"not provable here, refused: {name}" for name in sorted(found.refused))
    yield from (f"left out with it: {name}" for name in sorted(found.left_out))


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
