"""The garbage collector of a worker."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from piecework_worker.process_tuning import GC_THRESHOLD, tune_gc


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_what_a_worker_has_loaded_is_not_looked_at_again() -> None:
    tune_gc()
    assert gc.get_freeze_count() > GC_THRESHOLD
    assert GC_THRESHOLD == gc.get_threshold()[0]
    assert gc.isenabled()
