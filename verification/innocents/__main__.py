"""Put seven guilty chunks among forty, and count which chunks die of them."""

from __future__ import annotations

import asyncio
import sys

from verification.innocents.trial import trial
from verification.soak.site import own_aws


def main() -> None:
    """Run the trial on an AWS of its own; end with 1 where an innocent was harmed."""
    with own_aws() as folder:
        figures = asyncio.run(trial(folder))
    line = " ".join(f"{name}={value}" for name, value in figures.facts.items())
    sys.stdout.write(f"{figures.letters}\n{line}\n")
    sys.exit(not figures.kept)


if __name__ == "__main__":
    main()
