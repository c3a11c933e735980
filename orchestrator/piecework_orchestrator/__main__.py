"""`python -m piecework_orchestrator` is `piecework`, for where no console script is."""

from __future__ import annotations

from piecework_orchestrator.cli import main

main()
