"""Write SQL that gives a row one text, the same in every engine, and sums the hashes of all rows: a proof of the table.

    id 7, name 'Ann', paid null    ->    2:id7;4:name3:Ann    ->    md5, as two numbers    ->    their sums, modulo 2^64

Columns stand in the order of their names, and what is null is left out: so a column that comes, empty, changes no sum.
docs/proof.md tells the form of each type; ``tests/kit/rowforms.py`` computes it in Python.
"""

from __future__ import annotations

from collections.abc import Mapping

from enrich.base.spec import DataType, quote, quote_literal

SPARK, DUCKDB = "spark", "duckdb"

_TEXTS = {
    SPARK: {
        "plain": "CAST({x} AS STRING), ';'",
        "date": "unix_date({x}), ';'",
        "timestamp": "unix_micros({x}), ';'",
        "timestamp_ntz": "unix_micros(CAST({x} AS TIMESTAMP)), ';'",
        "string": "octet_length({x}), ':', {x}",
        "binary": "hex({x}), ';'",
        # Exact: shortest decimal digits differ between programs. Java's `%a` would take microseconds for each value.
        "fraction": "CASE WHEN abs({x}) < 9007199254740992D AND (abs({x}) >= 0.0009765625D OR {x} = 0)"
        " THEN concat(CAST({x} AS BIGINT), ':', CAST((CAST({x} AS DOUBLE) - CAST({x} AS BIGINT)) * 4611686018427387904D"
        " AS BIGINT)) WHEN isnan({x}) THEN 'NaN'"
        " WHEN {x} IS NOT NULL THEN format_string('%a', CAST({x} AS DOUBLE)) END, ';'",
        "array": "'[', array_join(transform({x}, {each} -> {element}), ''), ']'",
        "map": "'{{', array_join(array_sort(transform(map_entries({x}), {each} -> {element})), ''), '}}'",
        "element": "coalesce(concat('+', {x}), '-')",
        "both": "concat({x}, {y})",
        "struct": "CASE WHEN {x} IS NOT NULL THEN concat('(', {y}, ')') END",
        "entry": "concat({name}, {x})",
    },
    DUCKDB: {
        "plain": "CAST({x} AS VARCHAR) || ';'",
        "narrow": "regexp_replace(CAST({x} AS VARCHAR), '^(-?)[.]', '\\10.') || ';'",
        "date": "({x} - DATE '1970-01-01') || ';'",
        "timestamp": "epoch_us({x}) || ';'",
        "timestamp_ntz": "epoch_us({x}) || ';'",
        "string": "strlen({x}) || ':' || {x}",
        "binary": "hex({x}) || ';'",
        "fraction": "CASE WHEN abs({x}) < 9007199254740992 AND (abs({x}) >= 0.0009765625 OR {x} = 0)"
        " THEN CAST(trunc({x}) AS BIGINT) || ':' || CAST((CAST({x} AS DOUBLE) - trunc({x})) * 4611686018427387904"
        " AS BIGINT) WHEN isnan({x}) THEN 'NaN' WHEN isinf({x}) THEN if({x} > 0, 'Infinity', '-Infinity')"
        " ELSE replace(regexp_replace(format('{{:a}}', CAST({x} AS DOUBLE)), '^(-?0x.)p', '\\1.0p'), 'p+', 'p') END"
        " || ';'",
        "array": "'[' || array_to_string(list_transform({x}, lambda {each}: {element}), '') || ']'",
        "map": "'{{' || array_to_string(list_sort(list_transform(map_entries({x}), lambda {each}: {element})), '')"
        " || '}}'",
        "element": "coalesce('+' || {x}, '-')",
        "both": "({x}) || ({y})",
        "struct": "CASE WHEN {x} IS NOT NULL THEN '(' || {y} || ')' END",
        "entry": "{name} || {x}",
    },
}
_FRACTIONS, _WHOLE = ("float", "double"), ("boolean", "byte", "short", "integer", "long")


def write_row(
    kinds: Mapping[str, DataType], dialect: str = SPARK, inside: str = "", *, separator: str = ", ", depth: int = 0
) -> str:
    """Return SQL for the text of a row with these columns, or of those ``inside`` a struct; it is never null."""
    parts, form = ["''"], _TEXTS[dialect]["entry"]
    for name in sorted(kinds, key=str.lower):
        label = write_text(f"{len(name.lower().encode())}:{name.lower()}", dialect)
        value = _write_value(_reach(inside, name, dialect), kinds[name], dialect, depth)
        parts.append(form.format(name=label, x=value))
    return f"concat_ws('', {separator.join(parts)})"


def _write_value(value: str, kind: DataType, dialect: str, depth: int) -> str:
    """Return SQL for the text of one value, null for null, which tells where a text ends; for Spark, its parts."""
    texts = _TEXTS[dialect]
    if isinstance(kind, str):
        name = "plain" if kind in _WHOLE or kind.startswith("decimal") else "fraction" if kind in _FRACTIONS else kind
        if kind.startswith("decimal"):
            precision, _, scale = kind[len("decimal(") : -1].partition(",")
            name = "narrow" if precision.strip() == scale.strip() and "narrow" in texts else "plain"
        # Nothing but null is of type void, and no function takes that.
        return texts["plain"].format(x="CAST(NULL AS INT)") if kind == "void" else texts[name].format(x=value)
    if kind["type"] == "struct":
        fields = {each["name"]: each["type"] for each in kind["fields"]}
        return texts["struct"].format(x=value, y=write_row(fields, dialect, value, depth=depth))
    each = f"e{depth}"

    def write_element(part: str, its: DataType) -> str:
        return texts["element"].format(x=_write_value(part, its, dialect, depth + 1))

    if kind["type"] == "array":
        return texts["array"].format(x=value, each=each, element=write_element(each, kind["elementType"]))
    key = _write_value(_reach(each, "key", dialect), kind["keyType"], dialect, depth + 1)
    entry = texts["both"].format(x=key, y=write_element(_reach(each, "value", dialect), kind["valueType"]))
    return texts["map"].format(x=value, each=each, element=entry)


def _reach(value: str, name: str, dialect: str) -> str:
    """Return SQL for a field of a struct, or for a column where ``value`` is empty."""
    if dialect == DUCKDB:
        return f"struct_extract({value}, {write_text(name, dialect)})" if value else '"' + name.replace('"', '""') + '"'
    return f"{value}.{quote(name)}" if value else quote(name)


def write_text(text: str, dialect: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'" if dialect == DUCKDB else quote_literal(text)


_QUERIES = {
    SPARK: "coalesce(sum(CAST(conv(substr(hash, {start}, 16), 16, 10) AS DECIMAL(20, 0))) % {modulus}, 0)",
    DUCKDB: "coalesce(sum(CAST('0x' || substr(hash, {start}, 16) AS UBIGINT)) % {modulus}, 0)",
}


def write_query(kinds: Mapping[str, DataType], dialect: str, table: str) -> str:
    """Return the query that counts the rows of a table, named in SQL, and computes the two numbers that prove it.

    In Spark it needs ANSI, and UTC as the time zone; DuckDB needs UTC, too.
    """
    sums = [_QUERIES[dialect].format(start=start, modulus=2**64) for start in (1, 17)]
    text = write_row(kinds, dialect, separator=",\n  ")
    head = f"SELECT count(*) AS row_count,\n  {sums[0]} AS sum_1,\n  {sums[1]} AS sum_2"
    return f"{head}\nFROM (SELECT md5({text}) AS hash\n  FROM {table}) AS hashed"  # noqa: S608 - names are quoted
