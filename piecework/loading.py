"""Load pipelines by the names on a command line.

    my_pkg.review:pipeline     that object
    my_pkg.review              every pipeline in the module

Names come from operators and deployments, never from a message: importing a name runs
its module.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from types import ModuleType

from piecework.declared import PipelineFunction, as_pipeline
from piecework.domain.reached import reached_from
from piecework.errors import UsageError
from piecework.errors.extras import missing_extra
from piecework.pipelines import Pipeline

#: The `-X` option of a program that searches the working directory last.
WORKING_DIRECTORY = "piecework_folder"
#: Both forms of a declaration.
KINDS = (Pipeline, PipelineFunction)


def load_pipelines(names: Iterable[str]) -> dict[str, Pipeline]:
    """Return the pipelines of all names, and those that they map, by pipeline name.

    Raises:
        UsageError: `pipeline.module.not_found`, `pipeline.module.failed`,
            `pipeline.object.not_a_pipeline`; `pipeline.declaration.invalid` if two
            pipelines have the same name.
    """
    return with_mapped(p for name in names for p in _pipelines_of(name))


def with_mapped(pipelines: Iterable[Pipeline]) -> dict[str, Pipeline]:
    """Return pipelines, and those that their stages map, by name.

    A worker of a pipeline runs the children of its jobs, too. A pipeline that only
    running code reaches is not found: it is named to the worker.

    Raises:
        UsageError: `pipeline.declaration.invalid`: two have the same name.
    """
    found: dict[str, Pipeline] = {}
    waiting = [*pipelines]
    while waiting:
        pipeline = waiting.pop(0)
        if pipeline.name in found and found[pipeline.name] is pipeline:
            continue
        waiting += _declared(reached_from(pipeline.functions, KINDS))
        if found.setdefault(pipeline.name, pipeline) is not pipeline:
            message = f"Two pipelines have the name {pipeline.name!r}."
            step = "Rename one of them: jobs find their pipeline by its name."
            raise UsageError(
                message, code="pipeline.declaration.invalid", next_step=step
            )
    return found


def load_pipeline(name: str) -> Pipeline:
    """Return the only pipeline of a name.

    Raises:
        UsageError: As `load_pipelines`, and if the module holds several.
    """
    found = _pipelines_of(name)
    if len(found) > 1:
        module = name.partition(":")[0]
        options = ", ".join(f"{module}:{_attribute(module, p)}" for p in found)
        message = f"{name} holds {len(found)} pipelines."
        raise UsageError(
            message,
            code="pipeline.object.not_a_pipeline",
            next_step=f"Name one: {options}.",
        )
    return found[0]


def _pipelines_of(name: str) -> list[Pipeline]:
    module_name, _, attribute = name.partition(":")
    if module_name.endswith(".py") or not _is_importable(module_name):
        found = module_name.removesuffix(".py").strip("./").replace("/", ".") or "app"
        message = f"{name!r} does not begin with the name of a module."
        step = "Rename the file: letters, digits and `_` make the name of a module."
        if _is_importable(found):
            named_so = found + name.removeprefix(module_name)
            step = f"Name the module as in an import, such as `{named_so}`."
        raise UsageError(message, code="pipeline.module.not_found", next_step=step)
    module = _import(module_name)
    named = {attribute: getattr(module, attribute, None)} if attribute else vars(module)
    pipelines = _declared(named.values())
    if not pipelines:
        message = f"{name} is not a Pipeline."
        step = "Name a module that holds one, or `module:object`."
        if held := sorted(
            {_attribute(module_name, p) for p in _declared(vars(module).values())}
        ):
            step = f"The module holds {', '.join(f'{module_name}:{n}' for n in held)}."
        raise UsageError(message, code="pipeline.object.not_a_pipeline", next_step=step)
    return pipelines


def _is_importable(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _declared(values: Iterable[object]) -> list[Pipeline]:
    """Return the pipelines among the values, each once."""
    found = [as_pipeline(value) for value in values if isinstance(value, KINDS)]
    return list({id(pipeline): pipeline for pipeline in found}.values())


def _import(name: str) -> ModuleType:
    search_working_directory()
    try:
        return importlib.import_module(name)  # noqa: TID251 -- of `--pipelines`
    except ModuleNotFoundError as error:
        if error.name is not None and (name + ".").startswith(error.name + "."):
            message = f"There is no module {error.name!r}."
            step = "Run from the folder that holds it, or install it."
            raise UsageError(
                message, code="pipeline.module.not_found", next_step=step
            ) from error
        raise _failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


def search_working_directory() -> None:
    """Let imports find the user's modules in the working directory, after all others.

    `python -m` searches it first; a console script does not search it. The directory
    often holds documents of strangers, so a `docx.py` in it must not replace a library.
    Python's own switch for that, `-P` or `PYTHONSAFEPATH`, is kept, unless the command
    `piecework` set it for this program.
    """
    ours = WORKING_DIRECTORY in sys._xoptions  # noqa: SLF001 -- a documented name
    if "" not in sys.path and (ours or not sys.flags.safe_path):
        sys.path.append("")


def _failed(name: str, error: BaseException) -> UsageError:
    if isinstance(error, UsageError):
        return error
    if found := missing_extra(error):
        return found
    message = f"Importing {name} failed: {type(error).__name__}: {error}"
    step = ""
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        step = f"Install the package that has `{package}`, such as by `pip install "
        step += f"{package}`. If it is your own, run from the folder that holds it."
    return UsageError(message, code="pipeline.module.failed", next_step=step)


def _attribute(module: str, pipeline: Pipeline) -> str:
    names = vars(sys.modules[module]).items()
    return next(
        name
        for name, value in names
        if isinstance(value, KINDS) and as_pipeline(value) is pipeline
    )
