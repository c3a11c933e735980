"""`python -m piecework_orchestrator.cli`, for where no console script is installed."""

from __future__ import annotations

from piecework_orchestrator.cli import main

main()
