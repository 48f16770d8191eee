"""The settings of one deployment: ``conf/<deployment>.yml`` with the environment's variables put in.

Messages name variables and never what they hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from enrich.base.errors import ConfigError, Fault
from enrich.config import places
from enrich.config.models import Settings
from enrich.config.observers import check_observers
from enrich.config.shape import build_settings
from enrich.config.sparkconf import check_secrets, check_settings
from enrich.config.yamlfile import PathStep, Tree

_VARIABLE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|(\$\{)")


def load_settings(tree: Tree, base: Path, environment: Mapping[str, str]) -> tuple[Settings | None, list[Fault]]:
    """Return a conf file's settings, or None, with all its faults.

    Args:
        tree: The file as it is written.
        base: The project directory.
        environment: Environment variables by name. ``${NAME}`` must be among them; ``${NAME:-default}`` takes the
            default when the variable is unset or empty, as a shell does; ``$${`` is a plain ``${``.
    """
    secrets = check_secrets(tree)
    tree, faults = interpolate(tree, environment)
    faults += secrets
    settings, shape = build_settings(tree)
    faults += shape
    if isinstance(tree.value, dict):
        faults += _check_places(tree, tree.value, base)
    if settings is not None:
        faults += check_settings(tree, settings.spark.conf.items())
        faults += check_observers(tree, settings)
    if faults or settings is None:
        return None, faults
    if settings.spark.jars is not None:  # below the project directory, wherever the process runs
        jars = str(base / settings.spark.jars)
        settings = settings.model_copy(update={"spark": settings.spark.model_copy(update={"jars": jars})})
    return settings, faults


def interpolate(tree: Tree, environment: Mapping[str, str]) -> tuple[Tree, list[Fault]]:
    """Return the tree with ``${NAME}`` and ``${NAME:-default}`` replaced in its values, and what could not be."""
    faults: list[Fault] = []

    def walk(value: Any, path: tuple[PathStep, ...]) -> Any:
        if isinstance(value, dict):
            return {key: walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item, (*path, index)) for index, item in enumerate(value)]
        return _VARIABLE.sub(lambda match: take(match, path), value) if isinstance(value, str) else value

    def take(match: re.Match[str], path: tuple[PathStep, ...]) -> str:
        escaped, name, default, broken = match.groups()
        if escaped:
            return "${"
        if broken:
            faults.append(
                Fault("a variable is written ${NAME} or ${NAME:-default}; write '$${' for '${'", tree.at(*path))
            )
            return match.group()
        found = environment.get(name)
        if found is None and default is None:
            message = f"the environment variable {name} is not set; set it or write ${{{name}:-default}}"
            faults.append(Fault(message, tree.at(*path)))
            return match.group()
        return found or default or ""

    return replace(tree, value=walk(tree.value, ())), faults


def _check_places(tree: Tree, value: dict[str, Any], base: Path) -> list[Fault]:
    """Check that exactly one of lake and catalog is given, and that each place is one."""
    faults: list[Fault] = []
    if "lake" in value and "catalog" in value:
        faults.append(Fault("give either 'lake' or 'catalog', not both", tree.at("catalog")))
    elif "lake" not in value and "catalog" not in value:
        faults.append(Fault("give 'lake' (a directory) or 'catalog' (a schema) for bare table names", tree.at()))
    if "catalog" in value and "state" not in value and "lake" not in value:
        message = "'catalog' also needs 'state': a directory or an object-store URI"
        faults.append(Fault(message, tree.at("catalog")))
    for key in ("lake", "catalog", "state"):
        text = value.get(key)
        if not isinstance(text, str) or not text.strip() or "${" in text:
            continue
        try:
            places.parse_catalog_schema(text) if key == "catalog" else places.resolve_directory(text, base)
        except ConfigError as error:
            faults.append(Fault(f"'{key}': {error.message}", tree.at(key)))
    return faults
