"""Run the attacks on one machine: `make attacks`.

An attack is a test with the mark `attack(kind)`. One that fails has got through.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest

#: Where the attacks are; other folders take longer to collect.
PLACES = ("tests/unit", "tests/infra/test_embedded.py", "verification/security")
LEAST = 45


class Attacks:
    """A pytest plugin that counts the attacks by their kind."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.got_through: list[str] = []
        self._kinds: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Remember the kind of each attack."""
        for item in items:
            mark = item.get_closest_marker("attack")
            if mark is not None:
                self._kinds[item.nodeid] = str(mark.args[0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count an attack at its call, or where its preparation failed."""
        if report.when == "call" or report.failed:
            self.made[self._kinds[report.nodeid]] += 1
            if not report.passed:
                self.got_through.append(report.nodeid)


def main(words: list[str]) -> int:
    """Run all attacks; return 1 if one got through or too few were made."""
    attacks = Attacks()
    options = ["-q", "-m", "attack", "-p", "no:cacheprovider", "--no-header", *words]
    code = pytest.main([*options, *PLACES], plugins=[attacks])
    for kind, count in sorted(attacks.made.items()):
        sys.stdout.write(f"{count:4}  {kind}\n")
    for test in attacks.got_through:
        sys.stdout.write(f"got through: {test}\n")
    total = attacks.made.total()
    sys.stdout.write(f"attacks={total} got_through={len(attacks.got_through)}\n")
    return 1 if code or attacks.got_through or total < LEAST else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
