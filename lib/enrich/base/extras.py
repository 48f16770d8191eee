"""The distribution as pip knows it: its name, its version, and the extras that not every installation has.

The base install reads files and logs. Spark and Great Expectations are extras, because a cluster brings its own Spark
and because `enrich validate` needs neither: docs/adr/0018-distribution.md.
"""

from __future__ import annotations

from importlib.util import find_spec

from enrich.base.errors import EnvironmentFault

DISTRIBUTION = "enrich-delta"  # the name to install by; the import name and the command are `enrich`

UPGRADE = f"pip install --upgrade {DISTRIBUTION}"

SPARK, EXPECTATIONS, LINEAGE, STORES = "spark", "gx", "lineage", "stores"

MODULES = {SPARK: ("pyspark", "delta", "py4j"), EXPECTATIONS: ("great_expectations",), STORES: ("obstore",)}
"""Extra -> the packages that it brings and that enrich imports; a cluster may bring them in another way."""

PURPOSE = {
    SPARK: "Spark with Delta",
    EXPECTATIONS: "Great Expectations",
    STORES: "writes with a condition in object stores",
}


def read_version() -> str:
    """Return the installed version; ``0+source`` where there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+source"


def require_extra(extra: str) -> None:
    """Raise an EnvironmentFault with the line that installs an extra where one of its packages is missing."""
    for module in MODULES[extra]:
        if find_spec(module) is None:
            raise describe_missing(extra, module)


def describe_missing(extra: str, module: str) -> EnvironmentFault:
    """Return the error for a package of an extra that is not there."""
    told = f"this needs {PURPOSE[extra]}, and the package {module!r} is not installed"
    return EnvironmentFault(told, hint=f"run `{install(extra)}`")


def install(extra: str) -> str:
    """Return the line that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def find_missing_extra(error: BaseException) -> EnvironmentFault | None:
    """Return what an import that failed means to users; None where it is not about a package of an extra."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    name = (error.name or "").partition(".")[0]
    return next((describe_missing(extra, name) for extra, modules in MODULES.items() if name in modules), None)
