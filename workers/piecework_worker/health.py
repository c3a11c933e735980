"""Check the health file of a worker or reconciler process.

    python -m piecework_worker.health    exit code 0: healthy; 1: unhealthy, and why

A container's health check runs it every few seconds, so it imports only the standard
library. Worker and reconciler write the file (`piecework/telemetry/health.py`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping

HEALTH_FILE = "PIECEWORK_HEALTH_FILE"


def main() -> int:
    """Check the file and print the result in one line."""
    problem = find_problem(os.environ.get(HEALTH_FILE, ""), time.monotonic())
    sys.stdout.write(f"unhealthy: {problem}\n" if problem else "healthy\n")
    return 1 if problem else 0


def find_problem(file: str, now: float) -> str:
    """Return the problem as a text; an empty text means healthy."""
    if not file:
        return f"{HEALTH_FILE} names no file"
    try:
        with open(file, encoding="utf-8") as opened:  # noqa: PTH123 -- pathlib is slow to load
            record = json.load(opened)
        if record.get("at", now) > now:
            return f"{file} is of before a restart"
        return describe_overdue(record["due"], now)
    except FileNotFoundError:
        return f"{file} was not written yet"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{file} cannot be read: {type(error).__name__}"


def describe_overdue(due: Mapping[str, float], now: float) -> str:
    """Return the overdue loops as a text, the longest overdue first."""
    late = sorted((at, name) for name, at in due.items() if at < now)
    return ", ".join(f"{name} is {now - at:.1f} s overdue" for at, name in late)


if __name__ == "__main__":
    sys.exit(main())
