from __future__ import annotations

import ast

import pytest

from verification.security.source_rules import uses, violations


def test_no_text_becomes_code_an_object_or_a_program() -> None:
    assert [] == violations()


@pytest.mark.parametrize(
    "code",
    [
        "eval(x)",
        "import pickle",
        "from pickle import loads",
        "import yaml; yaml.load(x)",
        "from importlib import import_module",
        "import importlib; importlib.import_module(message.handler)",
        "import subprocess; subprocess.run(x, shell=True)",
        "run(x, shell=flag)",
        "import os; os.system(x)",
    ],
)
def test_what_is_forbidden_is_found(code: str) -> None:
    assert list(uses(ast.parse(code)))


def test_what_is_harmless_is_not() -> None:
    code = "import json, yaml\njson.loads(x)\nyaml.safe_load(x)\nrun(x, shell=False)"
    assert [] == list(uses(ast.parse(code)))
