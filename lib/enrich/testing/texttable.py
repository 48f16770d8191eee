"""Tables as text: a line for each row, bars between the cells, the columns in the first line.

    id | name        | price: double
    1  | Ann         | 7.5
    2  | " a | b "   | null

Lines of dashes mean nothing, and neither do bars at both ends of a line where the first line has them: tables that are
copied from a console can be read, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from enrich.base.errors import ConfigError, Fault
from enrich.testing.types import CellText

_RULE = re.compile(r"[-+|=: ]*(?:---|===)[-+|=: ]*")


@dataclass(frozen=True)
class TextTable:
    """A table read from a text.

    Attributes:
        columns: The first line's cells.
        rows: Each other line's cells, as many as there are columns.
        lines: On which line of the text each row stands, from 0.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[CellText, ...], ...]
    lines: tuple[int, ...]


def read_text_table(text: str, name: str = "table", line: int = 1) -> TextTable:
    """Read a table from a text.

    Args:
        text: The text.
        name: The file that messages name.
        line: The line of the file on which the text begins.

    Raises:
        ConfigError: With one fault for each line that is wrong.
    """
    faults: list[Fault] = []
    found: list[tuple[int, tuple[CellText, ...]]] = []
    is_framed = False
    for number, each in enumerate(map(str.strip, text.splitlines())):
        if not each or _RULE.fullmatch(each):
            continue
        where = f"{name}:{line + number}"
        is_framed = is_framed if found else each.startswith("|") and each.endswith("|")
        try:
            cells = tuple(_split_line(each.removeprefix("|").removesuffix("|") if is_framed else each))
        except ValueError as error:
            faults.append(Fault(str(error), where))
            continue
        found.append((number, cells))
        faults += [Fault(message, where) for message in _check_cells(cells, found[0][1], is_head=len(found) == 1)]
    if not found and not faults:
        faults.append(Fault("the table has no line with its columns", f"{name}:{line}"))
    if faults:
        raise ConfigError.of(faults)
    (_, head), *rows = found
    return TextTable(tuple(map(str, head)), tuple(cells for _, cells in rows), tuple(number for number, _ in rows))


def _check_cells(cells: tuple[CellText, ...], head: tuple[CellText, ...], *, is_head: bool) -> Iterator[str]:
    if is_head and len(set(cells)) < len(cells):
        yield "a column stands twice in the first line"
    if "" in cells:
        yield "a column has no name" if is_head else 'a cell is empty; write null, or "" for an empty text'
    if len(cells) != len(head):
        yield f"the row has {len(cells)} cells, but the first line has {len(head)} columns"


def _split_line(line: str) -> Iterator[CellText]:
    """Yield a line's cells; a bar inside a cell that begins with a quotation mark ends none."""
    rest: str | None = line
    while rest is not None:
        rest = rest.lstrip()
        end = _find_quoted_end(rest) if rest[:1] in ("'", '"') else 0
        cut = rest.find("|", end)
        cell, rest = (rest, None) if cut < 0 else (rest[:cut], rest[cut + 1 :])
        if end and cell[end:].strip():
            raise ValueError("text follows the quotation mark that ends a cell")
        yield CellText(cell.strip())


def _find_quoted_end(text: str) -> int:
    """Return where the quoted text that ``text`` begins with ends, as YAML reads it."""
    mark, place = text[0], 1
    while place < len(text):
        if text[place] == "\\" and mark == '"':
            place += 1
        elif text[place] == mark:
            if mark == '"' or text[place + 1 : place + 2] != mark:
                return place + 1
            place += 1
        place += 1
    raise ValueError("a quotation mark is missing at the end of a cell")
