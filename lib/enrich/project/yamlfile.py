"""Read one YAML or JSON file into plain values that remember the line each of them stands on.

YAML is read as version 1.2 with the core schema: ``on``, ``yes``, ``12:30``, ``2026-01-01`` and ``1_000`` are strings.
PyYAML resolves scalars as YAML 1.1 does, so only its event stream is used and the scalars are resolved here. JSON is
read as the YAML that it is, once the standard library has said that it is JSON.

What lets one file mean two things (anchors, aliases, tags, several documents, duplicate keys) is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from json.decoder import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, NoReturn

import yaml

from enrich.base.errors import ConfigError, Fault, show_text

MAX_BYTES = 1_000_000
MAX_LEVELS = 20

PathStep = str | int  # a mapping's key or a list's index (from 0)

_CONTROL = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_YAML = re.compile("[\t\x85\u2028\u2029]")  # what YAML reads in another way than JSON does
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **{sign + word: float(f"{sign}inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAX_DIGITS = 1_000
_MENDS = {
    "found a tab that cannot start any token": "; indent with spaces",
    "mapping values are not allowed here": "; put a text with ': ' in quotes, or behind '|' on lines of its own",
}


@dataclass(frozen=True)
class Tree:
    """The plain values of one file and where they stand."""

    name: str  # the file as messages name it, relative to the project directory
    value: Any  # ``dict``, ``list``, ``str``, ``int``, ``float``, ``bool`` and ``None``, nested
    # Line (from 1) of every node by its path, e.g. ``("sources", "orders", "key", 0)``. For an entry of a mapping it is
    # the line of the key. The root is ``()``.
    lines: dict[tuple[PathStep, ...], int]
    texts: dict[tuple[PathStep, ...], str]  # the text as written of every scalar that is no string, by path
    # Of every text in a block (``|``), by path: the line of its first one, and by how many blanks it is indented.
    blocks: dict[tuple[PathStep, ...], tuple[int, int]]
    # ``file:line`` of every node that another file says, by path.
    elsewhere: Mapping[tuple[PathStep, ...], str] = field(default_factory=dict)

    def line(self, *path: PathStep) -> int:
        """Return the line of the node at ``path``, or of the nearest enclosing node that exists."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def at(self, *path: PathStep) -> str:
        """Return ``file:line`` of the node at ``path``, or of the nearest enclosing node that exists."""
        while path and path not in self.elsewhere and path not in self.lines:
            path = path[:-1]
        return self.elsewhere.get(path) or f"{self.name}:{self.line(*path)}"

    def mapping(self, *path: PathStep) -> dict[str, Any]:
        """Return the mapping at ``path``; an empty one where there is none."""
        value = self.value
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}


def read_tree(path: Path, name: str) -> Tree:
    """Read a file, which messages call ``name``; raise ConfigError where it cannot be read, or as ``load_tree``."""
    try:
        if not path.is_file():
            found = "this is a directory" if path.is_dir() else "no such file"
            raise ConfigError.of([Fault(f"expected a file, but {found}", name)])
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError.of([Fault(f"cannot be read: {error.strerror or type(error).__name__}", name)]) from None
    if len(data) > MAX_BYTES:
        raise ConfigError.of([Fault(f"larger than {MAX_BYTES:,} bytes (1 MB)", name)])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError.of([Fault("not UTF-8 text; save the file as UTF-8", f"{name}:{line}")]) from None
    return load_tree(text, name)


def load_tree(text: str, name: str) -> Tree:
    """Read the text of a file: JSON when its name ends in ``.json``, else YAML; a ConfigError has each fault's line."""
    reader = _Reader(text, name, is_json=name.lower().endswith(".json"))
    with suppress(_StopReading):
        value = reader.document()
    if reader.faults:
        raise ConfigError.of(reader.faults)
    return Tree(name, value, reader.lines, reader.texts, reader.blocks)


def resolve_scalar(text: str) -> str | int | float | bool | None:
    """Return the value of a plain (unquoted) scalar by the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MAX_DIGITS:
        return text
    if _INTEGER.fullmatch(text):
        return int(text[2:], {"o": 8, "x": 16}[text[1]]) if text[:2] in ("0o", "0x") else int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


class _StopReading(Exception):
    """Ends a reader after a fault that leaves nothing sensible to read."""


@dataclass
class _Reader:
    """Builds values from PyYAML's events; notes lines, texts and faults."""

    text: str
    name: str
    is_json: bool
    lines: dict[tuple[PathStep, ...], int] = field(default_factory=dict)
    texts: dict[tuple[PathStep, ...], str] = field(default_factory=dict)
    blocks: dict[tuple[PathStep, ...], tuple[int, int]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def fault(self, message: str, line: int) -> None:
        self.faults.append(Fault(message, f"{self.name}:{line}"))

    def stop(self, message: str, line: int) -> NoReturn:
        self.fault(message, line)
        raise _StopReading

    def document(self) -> Any:
        if control := _CONTROL.search(self.text):
            message = f"control character U+{ord(control.group()):04X} is not allowed; write it as an escape"
            self.stop(message, self.text.count("\n", 0, control.start()) + 1)
        if self.is_json and self.text.strip():
            try:
                JSONDecoder(parse_int=str, parse_float=str).decode(self.text)
            except JSONDecodeError as error:
                problem = error.msg.replace("Expecting", "expected").removesuffix(" at").removesuffix(": ")
                self.stop(f"not valid JSON: {problem[0].lower()}{problem[1:]}", error.lineno)
            except RecursionError:
                self.stop(f"nested deeper than {MAX_LEVELS} levels", 1)
            # What is left is written as YAML reads it.
            self.text = _NOT_YAML.sub(lambda found: " " if found[0] == "\t" else f"\\u{ord(found[0]):04x}", self.text)
        events = self.events()
        next(events)  # the stream's start
        first = next(events)
        if isinstance(first, yaml.StreamEndEvent):
            self.stop("the file is empty", 1)
        line = _line_of(first)
        if first.version not in (None, (1, 2)):
            self.fault("%YAML: only version 1.2 is read", line)
        if first.tags:
            self.fault("%TAG: tags are not allowed", line)
        value = self.node(next(events), events, ())
        next(events)  # the document's end
        last = next(events)
        if not isinstance(last, yaml.StreamEndEvent):
            self.stop("several documents in one file; write one file for each", _line_of(last))
        if value is None and not self.faults:
            self.stop("the file is empty", 1)
        return value

    def events(self) -> Iterator[Any]:
        """Yield PyYAML's events; its errors become faults."""
        line = 1
        try:
            for event in yaml.parse(self.text, Loader=yaml.SafeLoader):
                line = _line_of(event)
                yield event
        except yaml.MarkedYAMLError as error:
            problem = (error.problem or "syntax error").replace("character '\\t'", "a tab")
            unclosed = ("end of stream" in problem or "stream end" in problem) and error.context_mark is not None
            mark = error.context_mark if unclosed else error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else line
            braces = "${" in "".join(self.text.split("\n")[line - 1 : line])
            hint = "; inside { } and [ ] put '${...}' in quotes" if braces else _MENDS.get(problem, "")
            self.stop(f"not valid YAML: {problem}{hint}", line)
        except (yaml.YAMLError, ValueError, OverflowError):
            self.stop("not valid YAML", line)

    def node(self, event: Any, events: Iterator[Any], path: tuple[PathStep, ...]) -> Any:
        """Return the value that starts with ``event``, reading what belongs to it."""
        line = _line_of(event)
        self.lines.setdefault(path, line)
        if isinstance(event, yaml.AliasEvent):
            self.fault(f"alias *{event.anchor}: aliases are not allowed; repeat the value", line)
            return None
        self.check_properties(event, line)
        if isinstance(event, yaml.ScalarEvent):
            if event.style is not None:  # quoted: it cannot be anything but text
                if event.style == "|":  # the block's first line is behind this one
                    both = self.text.split("\n")[line:], event.value.split("\n")
                    indents = ((len(each) - len(each.lstrip(" ")) for each in lines if each.strip()) for lines in both)
                    first, kept = (next(each, 0) for each in indents)
                    self.blocks[path] = line + 1, first - kept
                return self.join_surrogates(event.value, line)
            value = resolve_scalar(event.value)
            if not isinstance(value, str):
                self.texts[path] = event.value
            elif self.is_json:
                self.stop(f"not valid JSON: expected a value, not {show_text(value)}", line)
            return value
        if len(path) >= MAX_LEVELS:
            self.stop(f"nested deeper than {MAX_LEVELS} levels", line)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                items.append(self.node(event, events, (*path, len(items))))
            return items
        return self.mapping(events, path)

    def mapping(self, events: Iterator[Any], path: tuple[PathStep, ...]) -> dict[str, Any]:
        """Read the entries of a mapping; a scalar key counts as its text, so ``1`` and ``"1"`` are one key."""
        entries: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            line = _line_of(event)
            if not isinstance(event, yaml.ScalarEvent):
                self.stop("a key must be a name, not a list, a mapping or an alias", line)
            self.check_properties(event, line)
            if event.implicit[0] and not event.value:
                self.fault("a key is missing before ':'", line)
            key = self.join_surrogates(event.value, line)
            if (first := self.lines.setdefault((*path, key), line)) != line or key in entries:
                self.fault(f"duplicate key {key!r}, first on line {first}", line)
            entries[key] = self.node(next(events), events, (*path, key))
        return entries

    def check_properties(self, event: Any, line: int) -> None:
        if event.anchor is not None:
            self.fault(f"anchor &{event.anchor}: anchors are not allowed", line)
        if event.tag is not None:
            self.fault(f"tag {show_text(event.tag)}: tags are not allowed; quote the value when it is text", line)

    def join_surrogates(self, text: str, line: int) -> str:
        r"""Return a text with ``\ud83d\ude00`` as the one character that it is; half of a pair is none."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.fault("half of a surrogate pair is not a character", line)
            return ""


def _line_of(event: Any) -> int:
    return int(event.start_mark.line) + 1
