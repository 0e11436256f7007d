#!/usr/bin/env python3
"""Refuses names that say nothing: of parameters, attributes, functions and fields anywhere, of variables that live longer than five lines;
and public classes of the package that share a name.

    python scripts/check_names.py
"""

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
REFUSED = frozenset({"one", "said", "told", "found", "made"})
LONGEST = 5  # lines from the first line of a variable to its last
CODE = ("src", "scripts", "benchmarks", "research")

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Place(NamedTuple):
    line: int
    kind: str  # parameter, attribute, function, class, variable
    name: str


@dataclass
class Scope:
    """A scope of names, with the lines on which each of the refused names of it stands."""

    node: ast.AST
    outer: "Scope | None"
    kinds: dict[str, str] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)  # global and nonlocal
    uses: list[ast.AST] = field(default_factory=list)
    inner: "list[Scope]" = field(default_factory=list)
    places: dict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))

    def bind(self, name: str, kind: str, node: ast.AST) -> None:
        self.kinds.setdefault(name, kind)
        self.places[name].append(node)


class _Scopes(ast.NodeVisitor):
    def __init__(self, tree: ast.Module) -> None:
        self.all: list[Scope] = []
        self.now = self._enter(tree, None)
        self.generic_visit(tree)
        for scope in self.all:
            for node in scope.uses:
                self._resolve(scope, node)

    def _enter(self, node: ast.AST, outer: Scope | None) -> Scope:
        scope = Scope(node, outer)
        self.all.append(scope)
        if outer:
            outer.inner.append(scope)
        return scope

    @staticmethod
    def _resolve(scope: Scope, node: ast.AST) -> None:
        name = node.id  # type: ignore[attr-defined]
        at: Scope | None = scope
        while at is not None:
            hidden = isinstance(at.node, ast.ClassDef) and at is not scope
            if name in at.kinds and not hidden and name not in at.elsewhere:
                at.places[name].append(node)
                return
            at = at.outer

    def _function(self, node: Function) -> None:
        a = node.args
        for outside in (*a.defaults, *(d for d in a.kw_defaults if d), *getattr(node, "decorator_list", ())):
            self.visit(outside)
        arguments = [x for x in (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg) if x]
        for argument in arguments:
            if argument.annotation:
                self.visit(argument.annotation)
        if not isinstance(node, ast.Lambda):
            self.now.bind(node.name, "function", node)
            if node.returns:
                self.visit(node.returns)
        before, self.now = self.now, self._enter(node, self.now)
        for argument in arguments:
            self.now.bind(argument.arg, "lambda" if isinstance(node, ast.Lambda) else "parameter", argument)
        for child in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(child)
        self.now = before

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function  # noqa: N815 (the names are those of ast)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for outside in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self.visit(outside)
        self.now.bind(node.name, "class", node)
        before, self.now = self.now, self._enter(node, self.now)
        for child in node.body:
            self.visit(child)
        self.now = before

    def _comprehension(self, node: Comprehension) -> None:
        self.visit(node.generators[0].iter)
        before, self.now = self.now, self._enter(node, self.now)
        for number, generator in enumerate(node.generators):
            self.visit(generator.target)
            if number:
                self.visit(generator.iter)
            for condition in generator.ifs:
                self.visit(condition)
        for part in ("key", "value", "elt"):
            if hasattr(node, part):
                self.visit(getattr(node, part))
        self.now = before

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815 (the names are those of ast)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        scope = self.now
        while isinstance(scope.node, Comprehension) and scope.outer:
            scope = scope.outer
        scope.bind(node.target.id, "variable", node.target)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) or node.id in self.now.elsewhere:
            self.now.uses.append(node)
        else:
            self.now.bind(node.id, "field" if isinstance(self.now.node, ast.ClassDef) else "variable", node)

    def _elsewhere(self, node: ast.Global | ast.Nonlocal) -> None:
        self.now.elsewhere.update(node.names)

    visit_Global = visit_Nonlocal = _elsewhere  # noqa: N815 (the names are those of ast)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.now.bind(node.name, "variable", node)
        self.generic_visit(node)

    def _capture(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self.now.bind(node.name, "variable", node)
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = _capture  # noqa: N815 (the names are those of ast)


def scopes(tree: ast.Module) -> list[Scope]:
    """Every scope of a module; each knows the nodes where a name bound in it stands, in whatever scope within it they are."""
    return _Scopes(tree).all


def _lines(nodes: list[ast.AST]) -> int:
    return max(getattr(n, "lineno", 0) for n in nodes) - min(getattr(n, "lineno", 0) for n in nodes)


def places(tree: ast.Module) -> Iterator[Place]:
    """The refused names of a module. A comprehension's variable and a lambda's parameter count as variables."""
    for scope in scopes(tree):
        for name in REFUSED & scope.kinds.keys():
            kind, nodes = scope.kinds[name], scope.places[name]
            if kind in ("function", "class", "parameter", "field") or _lines(nodes) > LONGEST:
                yield Place(nodes[0].lineno, kind, name)  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in REFUSED:
            yield Place(node.lineno, "attribute", node.attr)


def shared(trees: Iterable[ast.Module]) -> list[str]:
    """Names that several public classes have."""
    counts = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in counts.items() if count > 1 and not name.startswith("_"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    refused, package = 0, []
    for path in sorted(p for folder in CODE for p in (ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        package += [tree] if "src" in path.relative_to(ROOT).parts else []
        for place in sorted(places(tree)):
            refused += 1
            print(f"{path.relative_to(ROOT)}:{place.line}: {place.kind} {place.name!r}: name what it is", file=sys.stderr)
    several = shared(package)
    for name in several:
        print(f"several classes are called {name}: give each a name of its own", file=sys.stderr)
    print(f"{refused} names are refused, {len(several)} are shared by classes; valid: none")
    return 1 if refused or several else 0


if __name__ == "__main__":
    sys.exit(main())
