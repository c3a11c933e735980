"""A plugin of pytest: run the tests in an order that the variable TEST_SEED draws."""

from __future__ import annotations

import os
from random import Random

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle the tests; each process of xdist shuffles them alike."""
    Random(os.environ["TEST_SEED"]).shuffle(items)
