"""Cut the original text of an expression into tokens, and refuse every character that has no place in one.

Spark gets this text. What it might cut differently is refused: comments, raw strings, ``${…}``, letters outside quotes
that it upper-cases into ASCII ones.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from enrich.base.errors import ConfigError

MAX_BYTES = 10_000  # of UTF-8


class ExpressionError(ConfigError):
    """An expression that is not a harmless scalar one over the names in scope."""


@dataclass(frozen=True)
class Token:
    """One piece of the text, as written."""

    type: str  # word (name or keyword), quoted (name in backticks or behind a dot), string, number, op, end
    text: str
    start: int

    @property
    def lower(self) -> str:
        """The word or operator in lower case; empty for quoted names and literals, which are never keywords."""
        return self.text.lower() if self.type in ("word", "op") else ""

    @property
    def name(self) -> str:
        """The name that a ``word`` or ``quoted`` token stands for."""
        return self.text[1:-1].replace("``", "`") if self.text[:1] == "`" else self.text


# Doubled quotes are Spark 4's way to write a quote. A backslash takes the next character with it, as in Spark.
_TOKEN = re.compile(
    r"""
  (?:
    (?P<string>[xX]'[0-9A-Fa-f]*'|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[lLsSyYdDfF])?(?![A-Za-z0-9_.]))
  | (?P<quoted>`(?:[^`]|``)+`)
  | (?P<op><=>|<>|<=|>=|==|!=|<<|>>|\|\||::|->|[-+*/%=<>!&|^~().,:\[\]])
  ) [ \t\r\n]*
    """,
    re.VERBOSE,
)
_PLAIN_STRING = re.compile(r"""(?:[^\\]|\\(?!['"uU]|[0-3][0-7][0-7]).)*""")
# With a time zone: today UTC, today+01:00.
_RELATIVE_TIME = re.compile(r"(?i:now)|(?i:today|tomorrow|yesterday)(?:\s+[A-Z]\S*|\s*[+-]\S+)?")


def tokenize(text: str) -> tuple[Token, ...]:
    """Return the tokens of ``text``, the last one of type ``end``; raise ExpressionError at what none can be."""
    if not text.strip():
        raise ExpressionError("an expression is empty")
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise ExpressionError(f"an expression is longer than {MAX_BYTES} bytes")
    if "${" in text:
        # Spark replaces ${env:…}, ${system:…} and ${any.conf} before it parses, in string literals and backticks too.
        raise ExpressionError("'${' is not allowed: Spark would replace it by a setting or an environment variable")
    return cut(text)


def cut(text: str) -> tuple[Token, ...]:
    """Cut a text of any length, or raise as ``tokenize``."""
    tokens: list[Token] = []
    at = len(text) - len(text.lstrip(" \t\r\n"))
    while at < len(text):
        found = _TOKEN.match(text, at)
        char = text[at]
        if found is None and char in "'\"`":
            raise ExpressionError(f"a quote {char} {locate(at)} is not closed, or has nothing inside")
        if found is None and (char.isdigit() or char == "."):
            raise ExpressionError(
                f"a malformed number {locate(at)}; put a name that starts with a digit into backticks"
            )
        if found is None and char.isprintable() and ord(char) < 128:
            raise ExpressionError(f"{char!r} {locate(at)} is not allowed in an expression")
        if found is None:
            message = f"character U+{ord(char):04X} {locate(at)} is not allowed outside quotes"
            raise ExpressionError(message, hint="put the name into backticks")
        kind = str(found.lastgroup)
        is_field = kind == "word" and bool(tokens) and tokens[-1].lower == "."
        token = Token("quoted" if is_field else kind, found[kind], at)
        _check_token(text, token)
        tokens.append(token)
        at = found.end()
    return (*tokens, Token("end", "", len(text)))


def is_relative_time(text: str) -> bool:
    """Tell whether Spark takes a text for the time of the run where it meets a date, also in a mere comparison."""
    return _RELATIVE_TIME.fullmatch(text.strip()) is not None


def locate(offset: int) -> str:
    """Say where ``offset`` is, for people: characters count from 1."""
    return f"at character {offset + 1}"


def _check_token(text: str, token: Token) -> None:
    pair = text[token.start : token.start + 2]
    if token.type == "op" and pair in ("--", "/*", "*/", "|>", "=>", "!>", "!<"):
        raise ExpressionError(f"{pair!r} {locate(token.start)} is not allowed in an expression")
    if token.type in ("string", "quoted"):
        for offset, char in enumerate(token.text, token.start):
            # Cc, Cf, Co, Cs, Cn: controls, invisible and direction marks, private, surrogates. Zl, Zp: line breaks.
            if unicodedata.category(char)[0] == "C" or unicodedata.category(char) in ("Zl", "Zp"):
                raise ExpressionError(f"character U+{ord(char):04X} {locate(offset)} is not allowed in quotes")
    if token.type != "string":
        return
    if not _PLAIN_STRING.fullmatch(token.text[1:-1]):
        message = f"a text literal {locate(token.start)} escapes a quote or a character by its number"
        raise ExpressionError(message, hint="double the quote, and write the character itself")
    plain = re.sub(r"\\(.)", lambda found: " " if found[1] in "0btnrZ" else found[1], token.text[1:-1])
    if is_relative_time(plain):
        raise ExpressionError(
            f"{plain.strip().lower()!r} {locate(token.start)} is not allowed: Spark can read it as the time of the run"
        )
