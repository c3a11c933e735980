from __future__ import annotations

import io

from piecework_orchestrator.demo.screen import (
    Plain,
)


def test_a_label_that_the_stream_cannot_write_does_not_end_the_demo() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")

    Plain(stream).print_line("dead", "§ 17")

    stream.seek(0)
    assert " dead     ? 17\n" == stream.read()
