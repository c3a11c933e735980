"""`python -m bench.limits > docs/aws-limits.md`."""

from __future__ import annotations

import sys

from bench.limits.page import page

if __name__ == "__main__":
    sys.stdout.write(page())
