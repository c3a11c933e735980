"""`python -m orchestrator.cli`, for where no console script is installed."""

from __future__ import annotations

from orchestrator.cli import main

main()
