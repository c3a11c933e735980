"""The measures of `make way-in` notice what they are made for."""

from __future__ import annotations

from pathlib import Path

import pytest

from verification.way_in import ALL, LIMITS, count_lines, over_limits, read_page

PAGE = """\
# Piecework

```sh
make demo
```

## Your own pipeline

```python
from piecework import pipeline

# A comment does not count.
@pipeline
async def shout(p: str) -> str: ...
```

```sh
piecework run shouting:shout rows.jsonl
```

## From your program

```python
more = 1
```
"""
GOOD: dict[str, float | str] = {**LIMITS, "typing_errors_caught": ALL}


def test_the_first_blocks_of_the_page_are_counted(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)

    assert {"lines_of_own_pipeline": 3, "commands": 1} == count_lines(read_page(page))
    assert {"unknown"} == {*count_lines(read_page(tmp_path / "none.md")).values()}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, limit + 0.01) for name, limit in LIMITS.items()),
        ("commands", "unknown"),
        ("typing_errors_caught", "some"),
        ("typing_errors_caught", "unknown"),
    ],
)
def test_a_figure_over_its_limit_is_named(name: str, value: float | str) -> None:
    assert [] == over_limits(GOOD)
    assert [name] == over_limits({**GOOD, name: value})
