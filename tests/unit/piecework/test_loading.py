from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from piecework.errors import UsageError
from piecework.errors.extras import naming_extras
from piecework.loading import (
    load_pipeline,
    load_pipelines,
    search_working_directory,
)

HEAD = """
from pydantic import BaseModel
from piecework import Pipeline, Stage
class Clause(BaseModel):
    text: str
async def extract(ctx): ...
"""


def line(variable: str, name: str) -> str:
    return (
        f"{variable} = Pipeline(name='{name}', payload=Clause, stages=[Stage(extract)])"
    )


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules can be imported, and are forgotten after the test."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


def written(folder: Path, module: str, *lines: str, head: str = HEAD) -> str:
    (folder / f"{module}.py").write_text("\n".join([head, *lines]))
    return module


def code_of(name: str) -> tuple[str, str]:
    with pytest.raises(UsageError) as caught:
        load_pipelines([name])
    return caught.value.code, caught.value.message


def test_a_module_names_all_its_pipelines(modules: Path) -> None:
    module = written(modules, "pw_both", line("one", "first"), line("two", "second"))
    assert set(load_pipelines([module])) == {"first", "second"}


def test_an_object_is_its_own_name(modules: Path) -> None:
    module = written(modules, "pw_pick", line("one", "first"), line("two", "second"))
    assert set(load_pipelines([f"{module}:two"])) == {"second"}


def test_one_pipeline_under_two_names_is_one(modules: Path) -> None:
    module = written(modules, "pw_alias", line("one", "first"), "same = one")
    assert load_pipeline(module).name == "first"
    assert set(load_pipelines([module, f"{module}:same"])) == {"first"}


def test_two_pipelines_of_one_name_are_refused(modules: Path) -> None:
    written(modules, "pw_here", line("one", "first"))
    written(modules, "pw_there", line("one", "first"))
    with pytest.raises(UsageError, match="Two pipelines have the name 'first'"):
        load_pipelines(["pw_here", "pw_there"])


def test_a_wrong_object_is_answered_with_those_that_the_module_holds(
    modules: Path,
) -> None:
    module = written(modules, "pw_held", line("a", "one"), line("b", "two"))
    with pytest.raises(UsageError) as refused:
        load_pipeline(f"{module}:absent")
    assert refused.value.next_step == "The module holds pw_held:a, pw_held:b."


def test_a_module_with_several_pipelines_needs_an_object_name(modules: Path) -> None:
    module = written(modules, "pw_many", line("one", "first"), line("two", "second"))
    with pytest.raises(UsageError) as caught:
        load_pipeline(module)
    assert caught.value.next_step == "Name one: pw_many:one, pw_many:two."


def test_a_module_that_is_not_there_is_named(modules: Path) -> None:
    del modules
    assert code_of("pw_absent") == (
        "pipeline.module.not_found",
        "There is no module 'pw_absent'.",
    )
    assert code_of("pw_absent.inner:x")[0] == "pipeline.module.not_found"


@pytest.mark.parametrize("name", ["./app.py", "app.py:x", ":x", "", "a,b", "my-app"])
def test_a_path_is_not_a_module(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_pipelines([name])
    assert refused.value.code == "pipeline.module.not_found"
    step = "Rename the file" if name in {"a,b", "my-app"} else "`app"
    assert step in refused.value.next_step


def test_a_module_that_misses_another_has_failed(modules: Path) -> None:
    module = written(modules, "pw_needy", "import pw_missing")
    code, message = code_of(module)
    assert code == "pipeline.module.failed"
    assert "pw_missing" in message
    with pytest.raises(UsageError, match="`pip install pw_missing`"):
        load_pipelines([module])


def test_a_module_that_misses_a_package_of_an_extra_names_the_extra(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    module = written(modules, "pw_agents", "import pydantic_ai")
    assert code_of(module)[0] == "cli.extra.missing"
    with pytest.raises(UsageError, match=r"pip install '\.\[pydantic-ai\]'"):
        load_pipelines([module])


def test_a_module_that_breaks_says_how(modules: Path) -> None:
    code, message = code_of(written(modules, "pw_broken", "1 / 0"))
    assert code == "pipeline.module.failed"
    assert "ZeroDivisionError: division by zero" in message


def test_a_module_that_ends_the_program_has_failed(modules: Path) -> None:
    code, message = code_of(written(modules, "pw_ends", "raise SystemExit(0)"))
    assert code == "pipeline.module.failed"
    assert "SystemExit" in message


def test_a_bad_declaration_keeps_its_own_code(modules: Path) -> None:
    module = written(
        modules, "pw_bad", "p = Pipeline(name='p', payload=Clause, stages=[])"
    )
    assert code_of(module)[0] == "pipeline.declaration.invalid"


@pytest.mark.parametrize("name", ["pw_empty", "pw_empty:extract", "pw_empty:absent"])
def test_what_is_not_a_pipeline_is_refused(name: str, modules: Path) -> None:
    written(modules, "pw_empty")
    code, message = code_of(name)
    assert code == "pipeline.object.not_a_pipeline"
    assert message == f"{name} is not a Pipeline."


def test_a_module_in_the_working_directory_is_found(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = modules / "here"
    here.mkdir()
    written(here, "pw_local", line("one", "local"))
    monkeypatch.chdir(here)
    assert load_pipeline("pw_local").name == "local"


@pytest.mark.attack("planted files")
def test_a_module_beside_the_documents_does_not_replace_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both a library that is installed and one that is not."""
    searched = [folder for folder in sys.path if folder not in {"", str(Path.cwd())}]
    monkeypatch.setattr(sys, "path", searched)
    monkeypatch.chdir(tmp_path)
    for name in ("wave", "pw_not_installed"):
        (tmp_path / f"{name}.py").write_text("PLANTED = True\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    search_working_directory()

    assert not hasattr(importlib.import_module("wave"), "PLANTED")
    with pytest.raises(ModuleNotFoundError), naming_extras():
        importlib.import_module("pw_not_installed")
    assert importlib.import_module("pw_not_installed").PLANTED


def test_a_pipeline_brings_those_that_its_stages_map(modules: Path) -> None:
    written(modules, "pw_below", line("below", "leaves"))
    head = f"{HEAD}import pw_below\nfrom pw_below import below as named\n"
    stages = [
        "async def one(ctx): return await ctx.map(named, [])",
        "async def two(ctx): return await ctx.map(here, [])",
        line("here", "twigs"),
        "top = Pipeline('tops', payload=Clause, stages=[Stage(one), Stage(two)])",
    ]
    module = written(modules, "pw_above", *stages, head=head)
    assert set(load_pipelines([f"{module}:top"])) == {"tops", "leaves", "twigs"}


def test_what_a_stage_names_may_refuse_to_be_looked_at(modules: Path) -> None:
    """A lazy object of a framework may raise at each look, and generated code too."""
    module = written(
        modules,
        "pw_lazy",
        "class Lazy:",
        "    def __getattribute__(self, name):",
        "        raise RuntimeError('there is no request')",
        "made = {}",
        "exec('def generated(): ...', made)",
        "lazy, generated = Lazy(), made['generated']",
        "async def use(ctx): return lazy, generated, inner",
        f"{line('inner', 'first')}",
        "outer = Pipeline(name='second', payload=Clause, stages=[Stage(use)])",
    )
    assert set(load_pipelines([f"{module}:outer"])) == {"first", "second"}
