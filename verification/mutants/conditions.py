"""Mutate each condition of a store write by removing one of its parts.

A condition is found at the write (`condition=`), and composed of the constants that it
names. A mutant lacks the part at this write only. So a condition of several writes has
a mutant for each.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from verification.mutants.grammar import removals
from verification.mutants.mutant import Mutant, scopes, span

STORE = "piecework/store"
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def condition_mutants(root: Path) -> Iterator[Mutant]:
    """Yield every condition without each of its parts."""
    paths = sorted((root / STORE).glob("*.py"))
    modules = {STORE.replace("/", ".") + f".{path.stem}": path for path in paths}
    trees = {name: ast.parse(path.read_text()) for name, path in modules.items()}
    for module, names in names_of(trees).items():
        path, tree = modules[module], trees[module]
        where = scopes(tree)
        source = path.read_text()
        for node in sites(tree, names):
            text = names.resolve(node)
            assert text is not None
            target, scope = assignment(tree, node) or (node, where[node])
            start, end = span(target, source)
            name = path.relative_to(root).as_posix()
            for part, rest in removals(text):
                what = f"without `{part}`"
                quoted = repr(rest)
                line = target.lineno
                yield Mutant("clause", name, line, scope, what, start, end, quoted)


@dataclass(frozen=True)
class Names:
    """Resolve the names of a module: its own constants, and imported ones."""

    own: Mapping[str, ast.expr]
    imported: dict[str, Names]

    def resolve(self, node: ast.expr) -> str | None:
        """Return the text of an expression; None if only a running program knows it."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name) if name in self.own:
                return self.resolve(self.own[name])
            case ast.Name(id=name) if name in self.imported:
                return self.imported[name].resolve(node)
            case ast.FormattedValue(value=value):
                return self.resolve(value)
            case ast.JoinedStr(values=values):
                parts = [self.resolve(value) for value in values]
                return None if None in parts else "".join(filter(None, parts))
        return None


def names_of(trees: Mapping[str, ast.Module]) -> dict[str, Names]:
    """Return the names of each module of the store, by the module's own name."""
    found = {module: Names(constants(tree), {}) for module, tree in trees.items()}
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module in found:
                of = found[node.module]
                found[module].imported.update({each.name: of for each in node.names})
    return found


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the module-level constants of a module."""
    found: dict[str, ast.expr] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
    return found


def sites(tree: ast.Module, names: Names) -> list[ast.expr]:
    """Return the expressions that become the condition of a write."""
    functions = {n.name: n for n in ast.walk(tree) if isinstance(n, FUNCTIONS)}
    given: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="condition", value=value):
                given.append(value)
            case ast.Assign(targets=[ast.Name(id="condition")], value=value):
                given.append(value)
            case ast.Call(func=ast.Attribute(attr=name), args=args):
                if name in functions:
                    given += positional(functions[name], args)
            case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args):
                given += defaults(args)
    found = [part for node in given for part in branches(node, functions)]
    return [node for node in found if names.resolve(node)]


def positional(
    function: ast.FunctionDef | ast.AsyncFunctionDef, args: list[ast.expr]
) -> Iterator[ast.expr]:
    names = [argument.arg for argument in function.args.args][1:]  # without `self`
    yield from (a for n, a in zip(names, args, strict=False) if n == "condition")


def defaults(args: ast.arguments) -> Iterator[ast.expr]:
    named = [argument.arg for argument in args.args][::-1]
    pairs = zip(named, args.defaults[::-1], strict=False)
    yield from (value for name, value in pairs if name == "condition")


def branches(
    node: ast.expr, functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]
) -> Iterator[ast.expr]:
    """Follow a choice into both its branches, and a method into its return value."""
    match node:
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Call(func=ast.Attribute(attr=name)) if name in functions:
            for inner in ast.walk(functions[name]):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    yield inner.value
        case _:
            yield node


def assignment(tree: ast.Module, node: ast.expr) -> tuple[ast.expr, str] | None:
    """Return the assignment of a constant if this is its only use.

    The mutation then keeps the constant a single object, which code may compare with
    `is`.
    """
    if not isinstance(node, ast.Name):
        return None
    compared = {
        id(side)
        for found in ast.walk(tree)
        if isinstance(found, ast.Compare)
        for side in found.comparators
    }
    uses = [
        found
        for found in ast.walk(tree)
        if isinstance(found, ast.Name)
        and found.id == node.id
        and isinstance(found.ctx, ast.Load)
        and id(found) not in compared
    ]
    value = constants(tree).get(node.id)
    return (value, node.id) if len(uses) == 1 and value is not None else None
