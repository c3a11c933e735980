"""Hold all templates against checkov, and print the figures of all checks.

    python -m tests.infra.check

`make infra-check` first runs cfn-lint, the rules with their fixtures, and a deployment.
"""

from __future__ import annotations

import sys

from tests.infra.check import checkov
from tests.infra.check.documented import documented
from tests.infra.check.fixtures import load_fixtures
from tests.infra.check.rules import RULES
from tests.infra.check.templates import Templates, load
from tests.tools import NotInstalledError


def main() -> int:
    """Run checkov; the last line has the figures."""
    wrong, figures = with_checkov(load())
    for line in wrong:
        sys.stdout.write(f"WRONG {line}\n")
    figures |= {
        "rules": len(RULES),
        "failing_fixtures": len(load_fixtures()),
        "not_provable": len(documented()),
    }
    line = " ".join(f"{name}={value}" for name, value in figures.items())
    sys.stdout.write(f"{line}\n")
    return 1 if wrong else 0


def with_checkov(templates: Templates) -> tuple[list[str], dict[str, int | str]]:
    """Run checkov over every variant; return what is wrong, and the figures."""
    try:
        verdict = checkov.run(templates)
    except NotInstalledError as error:
        wrong = [f"checkov could not be installed: {error}"]
        return wrong, {"checkov_failed": "none", "checkov_skipped": "none"}
    skipped = verdict.skipped.total()
    figures = {"checkov_failed": len(verdict.failed), "checkov_skipped": skipped}
    return sorted(verdict.failed), {"checkov_passed": verdict.passed, **figures}


if __name__ == "__main__":
    sys.exit(main())
