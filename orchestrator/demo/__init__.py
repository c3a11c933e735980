"""The demo: a contract is reviewed while calls fail and a worker is killed.

It starts an AWS, services and workers of its own on this machine, tells what becomes
of every chunk, and ends with figures that are counted from the tables and from the
books of the services, never from what the demo itself believes.
"""

from __future__ import annotations

from orchestrator.demo.run import run_demo

__all__ = ["run_demo"]
