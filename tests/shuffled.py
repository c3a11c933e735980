"""A plugin of pytest for `make test-under-load`: the order that TEST_SEED draws.

A limit of time ends only what hangs. Beside busy processes a test takes longer, so each
has more time.
"""

from __future__ import annotations

import os
from random import Random

import pytest

#: How often a test may take its limit.
SLOWER = 3


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Shuffle the tests; each process of xdist shuffles them alike."""
    Random(os.environ["TEST_SEED"]).shuffle(items)
    for item in items:
        item.add_marker(pytest.mark.timeout(SLOWER * float(config.getini("timeout"))))
