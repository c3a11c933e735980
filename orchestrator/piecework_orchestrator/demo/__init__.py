"""The demo reviews a contract while calls fail and a worker is killed.

It starts an embedded AWS, services and workers on this machine and reports each step.
The final figures come from the tables and from the ledgers of the services.
"""

from __future__ import annotations

from piecework_orchestrator.demo.run import run_demo

__all__ = ["run_demo"]
