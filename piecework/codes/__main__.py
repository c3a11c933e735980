"""Print the page of error codes: `python -m piecework.codes > docs/error-codes.md`."""

from __future__ import annotations

import sys

from piecework.codes.page import page

if __name__ == "__main__":
    sys.stdout.write(page())
