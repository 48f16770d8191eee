"""Print the measures of the house, and fail where one is worse than ``[tool.house]`` in pyproject.toml allows.

Whoever lowers a figure writes it there, so that it cannot rise again; longest module and function have fixed limits.
A closure is every module that importing ``enrich.pipeline`` brings in, also inside functions, but for type checkers.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIB = ROOT / "lib"
SATELLITES = {"dumps", "testing", "airflow", "observe", "maintain", "init", "demo"}


def name_module(path: Path) -> str:
    """Return the dotted name of a file."""
    return ".".join(path.relative_to(LIB).with_suffix("").parts).removesuffix(".__init__")


def list_imports(tree: ast.AST, known: set[str]) -> set[str]:
    """Return the modules among ``known`` that a module imports at run time."""
    guarded = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    skipped = {id(inner) for node in guarded for each in node.body for inner in ast.walk(each)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & known


def close(start: str, imports: dict[str, set[str]]) -> set[str]:
    """Return all modules that importing ``start`` brings in, with their packages."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in imports and name not in seen:
            seen.add(name)
            todo += [*imports[name], name.rpartition(".")[0]]
    return seen


def measure() -> dict[str, int]:
    """Return measure -> figure of ``lib/enrich``; less is better."""
    texts = {name_module(path): path.read_text() for path in sorted((LIB / "enrich").rglob("*.py"))}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    lines = {name: len(text.splitlines()) for name, text in texts.items()}
    imports = {name: list_imports(tree, set(trees)) for name, tree in trees.items()}
    core = close("enrich.pipeline", imports)
    closures = [core | close(name, imports) for name in trees if name.startswith("enrich.joins.")]
    beside = {name for name in texts if name.split(".")[1:2] and name.split(".")[1] in SATELLITES}
    used, defined = Counter[str](), Counter[str]()
    plain: list[str] = []
    functions = longest = asked = compared = 0
    for name, tree in trees.items():
        outside = not name.startswith("enrich.joins.")
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    functions += 1
                    longest = max(longest, (node.end_lineno or 0) - node.lineno + 1)
                    defined[node.name] += 1
                    if not node.decorator_list and not node.name.startswith("__"):
                        plain.append(node.name)
                case ast.Attribute(attr=word) | ast.Name(id=word):
                    used[word] += 1
                case ast.Call(func=ast.Name(id="isinstance"), args=[_, wanted]):
                    asked += outside and "Spec" in ast.unparse(wanted)
                case ast.MatchClass(cls=wanted):
                    asked += outside and "Spec" in ast.unparse(wanted)
                case ast.Compare(left=left, comparators=others):
                    kinds = [
                        each for each in (left, *others) if isinstance(each, ast.Attribute) and each.attr == "kind"
                    ]
                    compared += outside and bool(kinds)
    once = sum(used[name] == 1 and defined[name] == 1 for name in plain)
    return {
        "modules that the pipeline brings in": len(core),
        "lines that the pipeline brings in": sum(lines[name] for name in core),
        "lines of the pipeline with its longest kind": max(sum(lines[name] for name in kind) for kind in closures),
        "lines of the core": sum(count for name, count in lines.items() if name not in beside),
        "lines of the satellites": sum(lines[name] for name in beside),
        "modules": len(lines),
        "isinstance and match on specs outside the kinds": asked,
        "comparisons of kind outside the kinds": compared,
        "functions referenced once, per cent": round(100 * once / functions),
        "lines of the longest module": max(lines.values()),
        "lines of the longest function": longest,
    }


def main() -> int:
    """Print each measure beside its limit; return 1 where one is exceeded."""
    limits = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["house"]
    found = measure()
    worse = [name for name, figure in found.items() if figure > limits[name]]
    for name, figure in found.items():
        print(f"{'WORSE' if name in worse else 'ok   '} {name}: {figure} (at most {limits[name]})")  # noqa: T201 - this program prints
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
