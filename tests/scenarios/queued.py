"""A pipeline with a queue of its own, apart from those that each scenario serves."""

from __future__ import annotations

from dataclasses import replace

from tests.scenarios.pipelines import counting

slow = replace(counting, name="slow", queue="slow")
