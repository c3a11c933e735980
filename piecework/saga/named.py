"""Find the dependencies that a pipeline names: see `piecework.domain.reached`."""

from __future__ import annotations

from typing import Any

from piecework.dependency import Dependency
from piecework.domain.reached import reached_from
from piecework.pipelines import Pipeline


def dependencies_of(pipeline: Pipeline) -> list[Dependency]:
    """Return the dependencies that the functions of a pipeline name."""
    found = reached_from(pipeline.functions, Dependency, also=further)
    return [each for each in found if isinstance(each, Dependency)]


def further(found: Any) -> list[Any]:
    """Return the dependencies of the fallbacks of one."""
    return [each.dependency for each in found.fallback if each.dependency]
