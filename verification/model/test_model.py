from __future__ import annotations

import pytest

from verification.model.checker import explore
from verification.model.configurations import CONFIGURATIONS
from verification.model.mutants import MUTANTS, TINY, Mutant
from verification.model.small_model import SmallModel, model_of
from verification.model.state import Config


@pytest.mark.parametrize("cfg", CONFIGURATIONS, ids=lambda cfg: cfg.name)
def test_explored_states_violate_no_property(cfg: Config | SmallModel) -> None:
    assert {} == explore(model_of(cfg), 3_000).broken


def test_a_final_state_can_be_reached_from_every_state_of_the_smallest_run() -> None:
    found = explore(model_of(TINY._replace(dead_letter_queue=True)), 100_000)

    assert (True, {}) == (found.complete, found.broken)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guard)
def test_a_removed_guard_violates_its_property(mutant: Mutant) -> None:
    found = explore(model_of(mutant.without), 300_000, mutant.breaks)

    assert mutant.breaks in found.broken
