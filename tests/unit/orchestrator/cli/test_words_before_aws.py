"""A wrong word of a command is refused before anything connects to AWS."""

from __future__ import annotations

import csv
import io
import shlex
from typing import Any

import pytest

from piecework import reading, runtime
from piecework_orchestrator.results.export import writer_of
from tests.unit.orchestrator.cli.conftest import Run

WRONG = """
jobs list --status RUNING
jobs list --since 5x
jobs watch a --timeout 5x
jobs events a --since 5x
events --since 5x
jobs accept-changes a --dry-run --code-version 'bad version!'
jobs retry a --reason why --yes --deadline 5x
jobs set-budget a --budget-usd abc
jobs set-priority a hig
jobs delete a
jobs delete a --yes
chunks list a --status FOO
chunks show a x
dlq list --since 5x
dlq list --chunk 3
dlq stats --since 5x
dlq export --since 5x
dlq show a x
dlq redrive --job a --reason why --yes --patch '{'
dlq redrive --job a --reason why --yes --timeout 5m
dlq redrive --job a --reason why --yes --canary 2 --timeout 5x
dlq redrive --job a --reason why --yes --patch '{"n":1}' --pipeline no_such:x
dlq redrive --chunk 3 --reason why --yes
dlq discard --since 5x --reason why --yes
dlq compensate --since 5x --reason why --yes
approvals answer a 0
approvals answer a x --approve --reason why
approvals answer a 0 --value '{' --reason why
effects resolve a x key --outcome did-not-happen --reason why --yes
results a --to a.txt
results a --to a.jsonl --escape-formulas
results a --escape-formulas
results a --follow -o json
submit no_such:pipeline rows.jsonl
submit json:loads rows.jsonl --job-id 'a b'
submit piecework_examples.quickstart no_such_file.jsonl
submit piecework_examples.quickstart s3://bucket/rows.exe
pipelines pause 'a b'
pipelines resume 'a b'
limits set dep
limits set dep --unset --concurrent 3
limits set 'tenant:a b' --concurrent 3
limits set tenant:a --requests-per-minute 3
limits pause tenant:a
limits resume ' '
jobs set-budget a
budgets set a
budgets set a --daily-usd abc
budgets set 'a b' --daily-usd 5
"""


@pytest.mark.parametrize("words", WRONG.strip().splitlines())
def test_a_wrong_word_is_refused_before_the_command_connects(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    def connect(*_: Any, **__: Any) -> Any:
        pytest.fail("the command connects")

    monkeypatch.setattr(runtime, "connect", connect)
    monkeypatch.setattr(reading, "connect_for_reading", connect)
    done = run(*shlex.split(words))
    assert (done.exit_code, "error" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("value", "plain", "escaped"),
    [
        ("=1+1", "=1+1", "'=1+1"),
        ("@SUM(A1)", "@SUM(A1)", "'@SUM(A1)"),
        ("+49", "+49", "'+49"),
        ("-2", "-2", "'-2"),
        ("\tx", "\tx", "'\tx"),
        (-2, "-2", "-2"),
        ("a=b", "a=b", "a=b"),
        ("", "", ""),
        (None, "", ""),
    ],
)
def test_a_switch_escapes_the_formulas_of_a_csv_file(
    value: object, plain: str, escaped: str
) -> None:
    for switch, expected in ((False, plain), (True, escaped)):
        file = io.BytesIO()
        rows = iter([{"chunk": 0, "value": value}])
        writer_of("a.csv", escape_formulas=switch)(file, ["chunk", "value"], rows)
        read = list(csv.reader(io.StringIO(file.getvalue().decode(), newline="")))
        assert read == [["chunk", "value"], ["0", expected]]
