"""Print figures about the structure of the code; with `--check`, exit 1 where a bar is missed.

    python scripts/structure.py [--check]

Imports are read from the source, those inside functions included, those for type checkers excluded.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("apples", "nws", "stencil_app")
LONG_CLASS = 200


@dataclass
class Module:
    """A module: its dotted name, source, syntax tree and the modules it imports."""

    name: str
    path: Path
    text: str
    tree: ast.Module
    imports: set[str] = field(default_factory=set)

    @property
    def room(self) -> str:
        """The package below the top package, or the module itself if it is directly in the top package."""
        return ".".join(self.name.split(".")[:2])


def read_modules() -> dict[str, Module]:
    """Return all modules of the packages by name, with their imports resolved to modules."""
    modules = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            text = path.read_text(encoding="utf-8")
            modules[name] = Module(name, path, text, ast.parse(text, str(path)))
    for module in modules.values():
        module.imports = {name for name in imported(module.tree.body, modules) if name != module.name}
    return modules


def imported(body: Iterable[ast.AST], modules: dict[str, Module]) -> Iterator[str]:
    """Return the names of the project's modules that statements import, without those for type checkers."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from imported(node.orelse, modules)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in modules or node.module in modules:
                    yield name if name in modules else node.module
        else:
            yield from imported(ast.iter_child_nodes(node), modules)


def circles(modules: dict[str, Module]) -> list[list[str]]:
    """Return the groups of modules that import each other (strongly connected components, by Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(modules[name].imports):
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            group = [stack.pop()]
            while group[-1] != name:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in modules:
        if name not in number:
            visit(name)
    return found


def classes(modules: dict[str, Module]) -> Iterator[tuple[Module, ast.ClassDef]]:
    """Return all classes with their modules."""
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                yield module, node


def arrows(modules: dict[str, Module], package: str) -> set[tuple[str, str]]:
    """Return the pairs (importing, imported) of different rooms of a package."""
    inside = [m for m in modules.values() if m.name.startswith(f"{package}.")]
    return {
        (m.room, modules[other].room)
        for m in inside
        for other in m.imports
        if other.startswith(f"{package}.") and modules[other].room != m.room
    }


def calling(modules: dict[str, Module], pattern: str) -> list[str]:
    """Return the modules whose source matches a pattern."""
    return [m.name for m in modules.values() if re.search(pattern, m.text)]


def renaming(modules: dict[str, Module]) -> list[str]:
    """Return the modules that rename a file over another: `os.replace(a, b)` or `path.replace(other)`."""
    found = []
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                of_os = isinstance(owner, ast.Name) and owner.id == "os"
                positional = len(node.args) == 2 if of_os else len(node.args) == 1 and not node.keywords
                if node.func.attr == "replace" and positional:
                    found.append(module.name)
                    break
    return found


@dataclass(frozen=True)
class Figure:
    """A figure: its title, value, bar (at most; None for none) and the members that make it."""

    title: str
    value: int
    bar: int | None
    members: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the value is within the bar."""
        return self.bar is None or self.value <= self.bar


def listed(title: str, bar: int | None, members: Iterable[str]) -> Figure:
    """Return a figure that counts its members."""
    names = tuple(sorted(members))
    return Figure(title, len(names), bar, names)


def figures(modules: dict[str, Module]) -> Iterator[Figure]:
    """Return all figures."""
    tops = {
        package: [m for m in modules.values() if m.name.startswith(f"{package}.")] for package in PACKAGES
    }
    for package in ("apples", "nws"):
        direct = [m.name for m in tops[package] if m.path.parent == ROOT / package]
        yield listed(f"modules directly in {package}", 3, direct)
    rooms = {m.room for m in tops["apples"]}
    yield Figure("rooms of apples", len(rooms), 22)
    yield Figure("arrows between rooms of apples", len(arrows(modules, "apples")), 100)
    yield listed("circles of imports", 0, (" <-> ".join(group) for group in circles(modules)))
    lines = sum(m.text.count("\n") for m in modules.values())
    yield Figure("product lines of Python", lines, 58_000)
    spans = {f"{m.name}.{c.name}": (c.end_lineno or c.lineno) - c.lineno + 1 for m, c in classes(modules)}
    long = (f"{name} {length}" for name, length in spans.items() if length > LONG_CLASS)
    yield listed(f"classes over {LONG_CLASS} lines", 3, long)
    named = defaultdict(set)
    for module, node in classes(modules):
        if not node.name.startswith("_"):
            named[node.name].add(module.name)
    several = (f"{name}: {', '.join(sorted(of))}" for name, of in named.items() if len(of) > 1)
    yield listed("public class names with several meanings", 8, several)
    scripts = {m.name for m in modules.values() if re.search(r"^if __name__ ==", m.text, re.MULTILINE)}
    # The processes that fakes start are no part of a run.
    programs = [n for n in calling(modules, r"\"-I\", \"-S\", \"-c\"") if ".testing." not in n]
    yield listed("helper scripts", 6, {n for n in scripts if not n.endswith("__main__")} | set(programs))
    yield listed("modules that lock files", 1, calling(modules, r"fcntl\.(flock|lockf)\("))
    yield listed("modules that rename files", 1, renaming(modules))
    yield listed("modules that open SQLite", 1, calling(modules, r"sqlite3\.connect\("))
    yield listed("modules with a numba cache", 1, calling(modules, r"njit\([^)]*cache=True"))
    untyped = sum(len(re.findall(r"\boptions\[\"", m.text)) for m in tops["apples"])
    yield Figure('untyped options["..."]', untyped, 0)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    lax = [c["name"] for c in contracts if c["type"] == "layers" and not c.get("exhaustive")]
    lax += [c["name"] for c in contracts if c.get("ignore_imports")]
    yield listed("import contracts not exhaustive or with exceptions", 0, lax)


def main(arguments: list[str]) -> int:
    """Print one line per figure; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bar is missed")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the members of each figure")
    options = parser.parse_args(arguments)
    missed = 0
    for figure in figures(read_modules()):
        missed += not figure.holds
        bar = "" if figure.bar is None else f"  at most {figure.bar}"
        print(f"{figure.title:52} {figure.value:6}{bar}{'' if figure.holds else '  MISSED'}")
        if options.verbose:
            for member in figure.members:
                print(f"    {member}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
