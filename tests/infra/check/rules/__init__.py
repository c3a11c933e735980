"""The settings that must agree, as rules over the templates."""

from __future__ import annotations

from tests.infra.check.rules import (
    buckets,
    commands,
    containers,
    everywhere,
    keeping,
    networks,
    policies,
    queues,
    services,
    tables,
)
from tests.infra.check.rules.rule import RULES, Rule, broken

__all__ = [
    "RULES",
    "Rule",
    "broken",
    "buckets",
    "commands",
    "containers",
    "everywhere",
    "keeping",
    "networks",
    "policies",
    "queues",
    "services",
    "tables",
]
