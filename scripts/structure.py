"""Print figures about the structure and the amount of code; with `--check`, exit 1 where one got worse.

    python scripts/structure.py [--check] [--write] [--verbose]

Each figure has a bar. Where the bar is not reached yet, `scripts/ratchets.json` has the value that it must not exceed;
`--write` lowers these values to those of today. Imports are read from the source, those inside functions included,
those for type checkers excluded.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("apples", "nws", "stencil_app")
LONG_CLASS = 200
#: Figures that have not reached their bars, with the value that they must not exceed.
RATCHETS = ROOT / "scripts" / "ratchets.json"
#: Tokens that are no code.
NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)
#: Parts of an application that code must not ask for by type.
ROLES = {
    "Adaptable",
    "Constrained",
    "Deployable",
    "KnownByModel",
    "ReadableRecords",
    "Restartable",
    "SelfCheckpointing",
}
#: Names of variables, arguments and functions that name no quantity.
EMPTY_NAMES = {
    "asked",
    "believed",
    "found",
    "kept",
    "lessons",
    "look",
    "own",
    "place",
    "told",
    "wanted",
}
#: First words of a test's name that hide the unit.
ARTICLES = {"a", "an", "every", "no", "the"}
#: Underscored names that are public in the standard library.
PUBLIC = {"_asdict", "_exit", "_replace", "_fields", "_make"}
#: Modules of Slurm that other rooms must not import.
SLURM = "apples.slurm"


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
    """A figure: its title, value, bar (at most, or at least; None for none) and the members that make it."""

    title: str
    value: float
    bar: float | None
    members: tuple[str, ...] = ()
    at_least: bool = False

    def holds(self, bar: float | None) -> bool:
        """Return whether the value is within a bar."""
        return bar is None or (self.value >= bar if self.at_least else self.value <= bar)


def listed(title: str, bar: int | None, members: Iterable[str]) -> Figure:
    """Return a figure that counts its members."""
    names = tuple(sorted(members))
    return Figure(title, len(names), bar, names)


def tracked(*patterns: str) -> list[Path]:
    """Return the files under version control that match patterns of `git ls-files`."""
    done = subprocess.run(
        ["git", "ls-files", "-z", *patterns], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).exists()]


def code_lines(text: str, tree: ast.Module) -> int:
    """Return the lines of a module without imports, blanks, comments and docstrings."""
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                left_out |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - left_out)


def comments_per_100_lines(modules: Iterable[Module]) -> float:
    """Return the lines with a comment per 100 lines of modules."""
    lines, comments = 0, 0
    for module in modules:
        lines += module.text.count("\n")
        tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
        comments += sum(token.type == tokenize.COMMENT for token in tokens)
    return round(100 * comments / max(lines, 1), 1)


def role_tests(module: Module) -> Iterator[str]:
    """Return the places where a module tests an object for a part of an application."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
            if names & ROLES:
                yield f"{module.name}:{node.lineno}"


def simulated_reads(module: Module) -> Iterator[str]:
    """Return the places where a module reads an attribute `simulated`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr == "simulated" and isinstance(node.ctx, ast.Load):
            yield f"{module.name}:{node.lineno}"


def string_lookups(module: Module) -> Iterator[str]:
    """Return the places where a module reads a document by a key; none of modules with numpy's record arrays."""
    if re.search(r"^ *(import|from) num(py|ba)\b", module.text, re.MULTILINE):
        return
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
            and not re.search(r"Literal$|environ", ast.unparse(node.value))
        ):
            yield f"{module.name}:{node.lineno}"


def empty_names(module: Module) -> Iterator[str]:
    """Return the definitions and assignments of names that name no quantity."""
    for node in ast.walk(module.tree):
        name = None
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        if name is not None and name.lstrip("_") in EMPTY_NAMES:
            yield f"{module.name}:{node.lineno} {name}"


def private_members(module: Module) -> Iterator[str]:
    """Return the private members of other distributions and of the standard library that a module uses."""
    foreign: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            foreign |= {
                (a.asname or a.name).split(".")[0] for a in node.names if a.name.split(".")[0] not in PACKAGES
            }
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] not in PACKAGES:
            if node.module != "__future__":
                foreign |= {alias.asname or alias.name for alias in node.names}
            for alias in node.names:
                if re.match(r"_[a-z]", alias.name) or re.search(r"(^|\.)_[a-z]", node.module):
                    yield f"{module.name}:{node.lineno} {node.module}.{alias.name}"
    here = set(private_names([module]))
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr)) or node.attr in PUBLIC:
            continue
        # A member of `self` may be a base class's of this project; others must be defined in the same module.
        inherited = ast.unparse(node.value) in ("self", "cls", "super()")
        of_module = isinstance(node.value, ast.Name) and node.value.id in foreign
        if of_module or node.attr not in (DEFINED if inherited else here):
            yield f"{module.name}:{node.lineno} {ast.unparse(node)}"


#: Private names that any module of the project defines; filled by `figures`.
DEFINED: set[str] = set()


def private_names(modules: Iterable[Module]) -> Iterator[str]:
    """Return the private names that modules define: attributes, functions, fields and slots."""
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def knowing_slurm(modules: dict[str, Module]) -> set[str]:
    """Return the rooms of apples that are Slurm's, import its modules or have a module named after it."""
    return {
        module.room
        for module in modules.values()
        if module.name.startswith("apples.")
        and (
            module.room == SLURM
            or "slurm" in module.name.rsplit(".", 1)[-1]
            or any(f"{name}.".startswith(f"{SLURM}.") for name in module.imports)
        )
    }


def test_names() -> list[str]:
    """Return the names of all test functions."""
    return [
        node.name
        for path in tracked("tests/*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]


def amount(modules: dict[str, Module]) -> Iterator[Figure]:
    """Return the figures about the amount of code, tests, benchmarks and documentation."""
    yield Figure("code lines in the wheel", sum(code_lines(m.text, m.tree) for m in modules.values()), 45_500)
    yield Figure("modules", len(modules), 545)
    scripts = [path for path in tracked("benchmarks/*") if path.suffix in (".py", ".c")]
    yield Figure(
        "lines of benchmarks", sum(p.read_text(encoding="utf-8").count("\n") for p in scripts), 6_500
    )
    yield Figure("scripts of benchmarks", len(scripts), 30)
    tests = tracked("tests/*.py")
    yield Figure("lines of tests", sum(p.read_text(encoding="utf-8").count("\n") for p in tests), 50_000)
    pages = [ROOT / "README.md", *tracked("docs/*.md")]
    yield Figure(
        "words of documentation", sum(len(p.read_text(encoding="utf-8").split()) for p in pages), 50_000
    )


def flow(modules: dict[str, Module]) -> Iterator[Figure]:
    """Return the figures about second ways: roles, platforms' flags, untyped documents, programs, private members."""
    everything = modules.values()
    yield listed("isinstance tests of application roles", 0, (p for m in everything for p in role_tests(m)))
    yield listed("reads of .simulated", 3, (p for m in everything for p in simulated_reads(m)))
    yield listed("string look-ups in documents", 250, (p for m in everything for p in string_lookups(m)))
    sent = (m.name for m in everything if re.search(r"\bsent_program\((?!modules)", m.text))
    yield listed("programs sent to hosts", 1, sent)
    yield listed("rooms that know Slurm", 1, knowing_slurm(modules))
    DEFINED.update(private_names(everything))
    private = (member for m in everything for member in private_members(m))
    yield listed("private members of other packages", 0, private)


def names(modules: dict[str, Module]) -> Iterator[Figure]:
    """Return the figures about names and comments."""
    yield listed("identifiers that say nothing", 150, (n for m in modules.values() for n in empty_names(m)))
    tests = test_names()
    hiding = sum(name.split("_")[1] in ARTICLES for name in tests)
    yield Figure("% of test names that begin with an article", round(100 * hiding / max(len(tests), 1), 1), 5)
    stems = Counter(m.path.stem for m in modules.values() if not m.path.stem.startswith("__"))
    yield listed("module names in several places", 15, (n for n, count in stems.items() if count > 1))
    for room in ("apples.daemons", "apples.hosts", "apples.launching", "nws.memory"):
        rate = comments_per_100_lines(m for m in modules.values() if m.room == room)
        yield Figure(f"comments per 100 lines of {room}", rate, 6, at_least=True)


def figures(modules: dict[str, Module]) -> Iterator[Figure]:
    """Return all figures."""
    yield from amount(modules)
    yield from flow(modules)
    yield from names(modules)
    yield from walls(modules)


def walls(modules: dict[str, Module]) -> Iterator[Figure]:
    """Return the figures about packages, classes and what only one module may do."""
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
    parser.add_argument("--check", action="store_true", help="exit with 1 where a figure got worse")
    parser.add_argument("--write", action="store_true", help="lower the ratchets to the values of today")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the members of each figure")
    options = parser.parse_args(arguments)
    ratchets = json.loads(RATCHETS.read_text(encoding="utf-8"))
    worse = 0
    still_open: dict[str, float] = {}
    for figure in figures(read_modules()):
        reached = figure.holds(figure.bar)
        limit = figure.bar if reached else ratchets.get(figure.title, figure.bar)
        holds = figure.holds(limit)
        worse += not holds
        if not reached:
            still_open[figure.title] = figure.value if holds else limit
        words = "at least" if figure.at_least else "at most"
        bar = "" if figure.bar is None else f"  {words} {figure.bar}"
        state = "" if reached else f"  not yet, {words} {limit} today" if holds else f"  WORSE than {limit}"
        print(f"{figure.title:52} {figure.value:8}{bar}{state}")
        if options.verbose:
            for member in figure.members:
                print(f"    {member}")
    if options.write:
        # Those of `scripts/walk.py` stay.
        others = {title: value for title, value in ratchets.items() if title.startswith("dry run")}
        RATCHETS.write_text(json.dumps(still_open | others, indent=2) + "\n", encoding="utf-8")
    return 1 if worse and options.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
