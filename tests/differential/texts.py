"""Write a job of a world as the text of a query, in one of the many ways in which SQL can say it.

What a text means is the shape's; how it says it is random: the form of every equality and which side stands first,
USING, bare names, stars, the key of table joins, parentheses, remarks, blanks, and the case of letters. Nothing of
enrich is asked which of them it reads.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from differential.spec import Expr, Join, Shape, World, selection

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|\w+|\s+|.", re.DOTALL)
_PATH = re.compile(r"[A-Za-z_]\w*(\.(`[^`]*`|[A-Za-z_]\w*))*")
_BLANKS = (
    *(" ",) * 12,
    *("\n", "  ", "\t", "\n  ", ' /* it\'s "one" */ ', " -- LIMIT 3; GROUP BY `x\n", "/* a /* ' */ b */"),
)
_SIGNS = ("=", "=", "==", "<=>", "IS NOT DISTINCT FROM")
_COALESCING = ("coalesce", "nvl", "ifnull")
_HOWS = {
    "inner": ("JOIN", "INNER JOIN"),
    "left": ("LEFT JOIN", "LEFT OUTER JOIN"),
    "right": ("RIGHT JOIN", "RIGHT OUTER JOIN"),
    "full": ("FULL JOIN", "FULL OUTER JOIN"),
}
Path = tuple[str, ...]
"""(alias, column, field...), or ("key", column) for a part of the key that table joins share."""


@dataclass(frozen=True)
class Text:
    """A job as the text of a query.

    Attributes:
        sources: Name in the query's FROM -> the job's alias.
        is_same: Whether the job's other words have the same definition: a star and a key by another name have not.
    """

    query: str
    sources: dict[str, str]
    is_same: bool


def write_text(world: World, shape: Shape, seed: str, turn: int) -> Text | None:
    """Return a job as the text of a query; None where SQL has no words for it.

    Texts of one seed have one definition, and each turn writes it in another way.
    """
    if shape.mirror is not None or shape.past is not None:
        return None
    if any(join.kind not in ("table", "foreign_key") for join in shape.joins.values()):
        return None
    return _Writer(world, shape, seed, random.Random(f"{seed}/{turn}")).write()


class _Writer:
    """Writes one text from left to right, with what a name means so far.

    Attributes:
        seed: Decides what is another definition of the job.
        how: Decides the rest.
        scope: The aliases so far.
        merged: A name that USING joined by, in lower case -> what it is alone; and in ``hidden``, whose columns it is.
        members: The aliases that share the job's key.
        patterns: The sets of members that a row may have.
    """

    def __init__(self, world: World, shape: Shape, seed: str, how: random.Random) -> None:
        self.world, self.shape, self.seed, self.how = world, shape, seed, how
        self.tables = {alias: world.table(name) for alias, name in shape.aliases().items()}
        self.scope, self.members = [shape.driving], [shape.driving]
        self.patterns = {frozenset(self.members)}
        self.merged: dict[str, Path] = {}
        self.hidden: dict[str, set[str]] = {}
        self.visible: list[tuple[str, Path]] = [
            (each.name, (shape.driving, each.name)) for each in self.tables[shape.driving].all_columns
        ]
        self.is_same = True
        self.sources: dict[str, str] = {}

    def write(self) -> Text | None:
        select = selection(self.world, self.shape)
        rows = self._table(self.shape.driving)
        for alias, join in self.shape.joins.items():
            if self.how.random() < 0.25:
                rows = f"({rows})"
            written = self._join(alias, join)
            if written is None:
                return None
            rows += written
        columns = self._columns(select)
        text = f"{self._word('SELECT')} {columns} {self._word('FROM')} {rows}"
        if self.shape.where is not None:
            self.is_same &= not self._is_renamed(self.shape.where)
            text += f" {self._word('WHERE')} {self._inside(self._expression(self.shape.where), 'where')}"
        text += self.how.choice(("", "", ";", "\n;"))
        return Text(self._blanks(text), self.sources, self.is_same)

    # --- FROM

    def _table(self, alias: str) -> str:
        """Write a table of FROM, under the job's alias or under another name with this alias."""
        name = alias if self._decides(0.3, "alias", alias) else f"s_{alias}"
        self.sources[name] = alias
        if name == alias:
            return self._name(alias, exact=self.how.random() < 0.5)
        return f"{self._name(name)} {self.how.choice((self._word('AS') + ' ', ''))}{self._name(alias, exact=True)}"

    def _join(self, alias: str, join: Join) -> str | None:
        """Write a join, and note what it makes of the rows."""
        key = self.tables[alias].key
        parts = [self._part_of_key(expr.text) for expr in join.on]
        if join.kind == "foreign_key" and parts == [*range(len(self.tables[self.shape.driving].key))]:
            return None  # SQL means a table join by that
        self.is_same &= not any(self._is_renamed(expr) for expr in join.on)
        using = self._decides(0.6, "using", alias) and self._find_using(alias, join)
        head = f" {self._word(self.how.choice(_HOWS[join.how]))} {self._table(alias)} "
        if using:
            names = [self._name(name) for name in key]
            self.how.shuffle(names)
            written = f"{head}{self._word('USING')} ({', '.join(names)})"
        else:
            written = f"{head}{self._word('ON')} {self._on(alias, join)}"
        merged: dict[str, Path] = {}
        for part, name in enumerate(key if using else ()):
            left = ("key", self.tables[self.shape.driving].key[part]) if join.kind == "table" else _split(join.on[part])
            both = ("", "")  # an expression, which has no name
            foreign = {"right": (alias, name), "full": both}.get(join.how, left)
            merged[name.lower()] = left if join.kind == "table" else foreign
            self.hidden.setdefault(name.lower(), {*self._holders(name)}).add(alias)
        if join.kind == "table":
            kept = self.patterns if join.how in ("left", "full") else set()
            alone = {frozenset([alias])} if join.how in ("right", "full") else set()
            self.patterns = {each | {alias} for each in self.patterns} | kept | alone
            self.members.append(alias)
        of_right = [(each.name, (alias, each.name)) for each in self.tables[alias].all_columns]
        rest = [each for each in [*self.visible, *of_right] if each[0].lower() not in merged]
        self.visible = [*[(name, merged[name.lower()]) for name in (key if using else ())], *rest]
        self.merged |= merged
        self.scope.append(alias)
        return written

    def _find_using(self, alias: str, join: Join) -> bool:
        """Tell whether USING says what a join does: its names mean on the left what is equal to the key."""
        driving = self.tables[self.shape.driving].key
        for part, name in enumerate(self.tables[alias].key):
            merged, holders = self.merged.get(name.lower()), self._holders(name)
            if merged is not None and not self._means(name, holders):
                return False
            if merged is None and len(holders) != 1:
                return False
            path = merged if merged is not None else (holders[0], name)
            if join.kind == "table" and (self._cover(path) != part or part >= len(driving)):
                return False
            if join.kind != "table" and (not join.on[part].is_path or path != _split(join.on[part])):
                return False
        return True

    def _means(self, name: str, holders: Sequence[str]) -> bool:
        """Tell whether a name of USING means still what it was joined by: the key, where it is that in every row."""
        owners = self.hidden[name.lower()]
        is_key = self.merged[name.lower()][0] == "key"
        return owners.issuperset(holders) and (not is_key or all(each & owners for each in self.patterns))

    def _on(self, alias: str, join: Join) -> str:
        """Write the condition of a join."""
        scope, equal = [*self.scope, alias], []
        for part, name in enumerate(self.tables[alias].key):
            left = self._key(part, scope) if join.kind == "table" else self._expression(join.on[part], scope)
            sides = [self._around(left, 0.2), self._around(self._column((alias, name), scope), 0.2)]
            self.how.shuffle(sides)
            equal.append(self._around(f"{sides[0]} {self._word(self.how.choice(_SIGNS))} {sides[1]}", 0.2))
        self.how.shuffle(equal)
        return self._around(f" {self._word('AND')} ".join(equal), 0.2)

    # --- SELECT

    def _columns(self, select: dict[str, Expr]) -> str:
        """Write the columns, with a star where they are those of one."""
        wanted = [(name, self._resolve(expr)) for name, expr in select.items()]
        is_clear = all(self._means(name, ()) for name, path in self.visible if path[0] == "key")
        if wanted == self.visible and is_clear and self._decides(0.9, "star"):
            self.is_same &= self.shape.select is None
            return "*"
        self.is_same &= self.shape.select is not None or not self.shape.joins
        written, place, names = [], 0, [*select]
        while place < len(names):
            star = next((each for each in self.scope if self._is_star(each, wanted[place:])), None)
            if star is not None and self._decides(0.8, "star", star):
                self.is_same &= self.shape.select is None
                written.append(f"{self._name(star)}.*")
                place += len(self.tables[star].all_columns)
                continue
            written.append(self._item(names[place], select[names[place]]))
            place += 1
        return ", ".join(written)

    def _is_star(self, alias: str, wanted: Sequence[tuple[str, Path | None]]) -> bool:
        columns = [(each.name, (alias, each.name)) for each in self.tables[alias].all_columns]
        return [*wanted[: len(columns)]] == columns

    def _item(self, name: str, expr: Expr) -> str:
        self.is_same &= not self._is_renamed(expr)
        path = self._resolve(expr)
        is_own = path is not None and path[-1] == name and path[0] != "key" and not self._respells(path)
        if path is not None and is_own and self.how.random() < 0.6:
            return self._column(path, self.scope, named=True)
        word = f"{self._word('AS')} " if self.how.random() < 0.7 else ""
        written = self._expression(expr)
        written = written if path is not None else self._inside(written, name)
        return f"{written} {word}{self._name(name, exact=True, quoted=not word)}"

    # --- expressions and names

    def _expression(self, expr: Expr, scope: Sequence[str] | None = None) -> str:
        """Write an expression with its names as the query has them."""
        scope = self.scope if scope is None else scope
        tokens, found, place = _TOKEN.findall(expr.text), [], 0
        while place < len(tokens):
            first = tokens[place]
            if first not in (*self.scope, "key") or (first == "key" and len(self.members) == 1):
                is_word = re.fullmatch(r"[A-Za-z_]\w*", first) is not None
                found.append(self._word(first) if is_word else first)
                place += 1
                continue
            path = [first]
            while tokens[place + 1 : place + 2] == ["."]:
                path.append(tokens[place + 2].strip("`"))
                place += 2
            place += 1
            found.append(
                self._key(self._place(path), scope, own=False) if first == "key" else self._column(path, scope)
            )
        return "".join(found)

    def _resolve(self, expr: Expr) -> Path | None:
        """Return what an expression names; None where it is more than a name."""
        if not expr.is_path:
            return None
        path = _split(expr)
        return ("key", self._key_name(self._place(path))) if path[0] == "key" else path

    def _place(self, path: Sequence[str]) -> int:
        return self.tables[self.shape.driving].key.index(path[1]) if len(path) > 1 else 0

    def _key_name(self, part: int) -> str:
        return self.tables[self.shape.driving].key[part]

    def _cover(self, path: Path) -> int | None:
        """Return the part of the job's key that a column is in every row so far."""
        if path[0] == "key":
            return self._place(path)
        if path[0] not in self.members or not all(path[0] in each for each in self.patterns):
            return None
        key = self.tables[path[0]].key
        return key.index(path[1]) if len(path) == 2 and path[1] in key else None

    def _part_of_key(self, text: str) -> int | None:
        """Return the part of the job's key that an expression is in every row so far."""
        found = self._key_columns(text)
        parts = {part for _, part in found or ()}
        owners = {alias for alias, _ in found or ()}
        is_whole = owners == {"key"} or all(each & owners for each in self.patterns)
        return parts.pop() if len(parts) == 1 and is_whole else None

    def _key_columns(self, text: str) -> list[tuple[str, int]] | None:
        """Return the columns of the job's key of which an expression is the first that is not null."""
        if _PATH.fullmatch(text):
            path = [step.strip("`") for step in re.findall(r"`[^`]*`|[^.]+", text)]
            if path[0] == "key":
                return [("key", self._place(path))] if len(self.members) > 1 else [(self.members[0], self._place(path))]
            key = self.tables[path[0]].key if path[0] in self.members else ()
            return [(path[0], key.index(path[1]))] if len(path) == 2 and path[1] in key else None
        if not re.fullmatch(r"coalesce\([\w.`, ]+\)", text):
            return None
        inside = [self._key_columns(each.strip()) for each in text[len("coalesce(") : -1].split(",")]
        return None if None in inside else [each for part in inside for each in part or ()]

    def _is_renamed(self, expr: Expr) -> bool:
        """Tell whether a query's word for an expression is the job's key, which the job does not call so."""
        if len(self.members) == 1:
            return False
        texts = [
            expr.text,
            *re.findall(r"coalesce\([\w.`, ]+\)", expr.text),
            *re.findall(r"[A-Za-z_][\w.`]+", expr.text),
        ]
        known = [text for text in texts if text.partition(".")[0] not in ("key", self.shape.driving)]
        return any(self._part_of_key(text) is not None for text in known if text.partition("(")[0] != "key")

    def _key(self, part: int, scope: Sequence[str], *, own: bool = True) -> str:
        """Write a part of the key that all members share; ``own``: the driving table's column may stand for it."""
        columns = {alias: (alias, self.tables[alias].key[part]) for alias in self.members}
        alone = [each for each in self.members if all(each in pattern for pattern in self.patterns)]
        alone = alone if own else [each for each in alone if each != self.shape.driving]
        bare = [name for name, path in self.merged.items() if path == ("key", self._key_name(part))]
        bare = [name for name in bare if self._means(name, self._holders(name, scope))]
        if bare and self.how.random() < 0.6:
            return self._name(self.how.choice(bare))
        if alone and (len(self.members) == 1 or self.how.random() < 0.3):
            return self._column(columns[self.how.choice(alone)], scope)
        chosen = self.how.sample(self.members, self.how.randint(min(2, len(self.members)), len(self.members)))
        if len(chosen) < 2 or not all(each & {*chosen} for each in self.patterns):
            chosen = self.how.sample(self.members, len(self.members))
        return self._coalesce([self._column(columns[each], scope) for each in chosen])

    def _coalesce(self, parts: list[str]) -> str:
        if len(parts) == 1:
            return parts[0]
        if len(parts) > 2 and self.how.random() < 0.5:
            return self._coalesce([self._coalesce(parts[:2]), *parts[2:]])
        called = "coalesce" if len(parts) > 2 else self.how.choice(_COALESCING)
        return f"{self._word(called)}({', '.join(parts)})"

    def _holders(self, name: str, scope: Sequence[str] | None = None) -> list[str]:
        """Return the aliases that have a column."""
        aliases = self.scope if scope is None else scope
        return [a for a in aliases if name.lower() in {each.name.lower() for each in self.tables[a].all_columns}]

    def _column(self, path: Sequence[str], scope: Sequence[str], *, named: bool = False) -> str:
        """Write a column, or a field of one; ``named``: its last part names a column of the target."""
        alias, *rest = path
        holders, merged = self._holders(rest[0], scope), self.merged.get(rest[0].lower())
        is_clear = holders == [alias] if merged is None else {*holders} <= self.hidden[rest[0].lower()]
        is_it = merged is None or merged == (alias, rest[0])
        hides = rest[0].lower() in {each.lower() for each in scope}
        names = [self._name(rest[0], exact=named and len(rest) == 1), *rest[1:]]
        if self._respells(path):
            names[1:] = [name.upper() for name in rest[1:]]
            self.is_same = False
        if is_clear and is_it and not hides and self.how.random() < 0.4:
            return ".".join(names)
        return ".".join((self._name(alias), *names))

    def _name(self, name: str, *, exact: bool = False, quoted: bool = False) -> str:
        if not exact and self.how.random() < 0.2:
            name = self.how.choice((name.upper(), name.lower(), name.title()))
        is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None and not quoted
        return name if is_plain and self.how.random() < 0.8 else f"`{name}`"

    def _respells(self, path: Sequence[str]) -> bool:
        """Tell whether fields are written in other letters: for a definition, their case is a part of them."""
        return len(path) > 2 and self._decides(0.2, *path)

    def _decides(self, chance: float, *what: str) -> bool:
        """Tell whether something is done, the same in all texts of one seed."""
        return random.Random("/".join((self.seed, *what))).random() < chance

    def _word(self, word: str) -> str:
        return self.how.choice((word, word, word.upper(), word.lower(), word.title()))

    def _around(self, text: str, chance: float) -> str:
        """Write parentheses around what an equality or AND holds, or leave it."""
        return f"({text})" if self.how.random() < chance else text

    def _inside(self, text: str, name: str) -> str:
        """Write parentheses around an expression, or leave it: for a definition, they are a part of it."""
        if not self._decides(0.2, "parentheses", name):
            return text
        self.is_same = False
        return f"({text})"

    def _blanks(self, text: str) -> str:
        """Write other blanks and remarks in the place of blanks; a remark right after a star would end one in Spark."""
        written = ""
        for each in _TOKEN.findall(text):
            found = self.how.choice(_BLANKS) if each == " " else each
            written += f" {found}" if each == " " and written.endswith("*") and found.startswith("/") else found
        return written


def _split(expr: Expr) -> Path:
    return tuple(step.strip("`") for step in re.findall(r"`[^`]*`|[^.]+", expr.text))
