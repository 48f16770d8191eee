"""The guard against the clock: text that is put together although no column is read.

Where a text that Spark can compute beforehand is cast to a date or a timestamp, openly or because it stands beside one,
and is ``now``, ``today``, ``tomorrow`` or ``yesterday``, Spark puts the time of the run there (its optimizer's rule
``SpecialDatetimeValues``). It never does so with a column's value. The lexer refuses such literals. This module tells
which parts of an expression are texts that no literal shows, and where Spark might cast them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NoReturn

from enrich.expressions.functions import GROUPS, split_words


class Kind(IntEnum):
    """What a part of an expression is; of several parts together, the greatest."""

    FIXED = 0
    """No column and no text but literals, which the lexer has checked."""
    BYTES = 1
    """The same with a binary literal, which becomes a text when it is cast."""
    BUILT = 2
    """A text, or something that holds one, which is put together although no column is read."""
    OPEN = 3
    """Something that reads a column or a lambda variable: never the clock."""


_NO_TEXT = split_words(
    """
    ascii bit_length char char_length character_length chr contains endswith find_in_set instr is_valid_utf8 len length
    levenshtein locate luhn_check octet_length position regexp_count regexp_instr regexp_like soundex space startswith
    to_number try_to_number is_variant_null json_array_length
    """
)
"""Functions of the groups below whose values are never words."""

_BUILDERS = (
    split_words(f"{GROUPS['Text']} {GROUPS['JSON and variants']}")
    | split_words("array_join conv date_format from_unixtime reverse str_to_map")
) - _NO_TEXT

_CASTING = split_words(
    f"{GROUPS['Conditions']} {GROUPS['Dates and times']} array date decode map sequence timestamp try_add try_subtract"
)
"""Functions that may cast an argument to a date or a timestamp, or compare it with one."""

_MOMENTS = split_words("date timestamp timestamp_ltz timestamp_ntz")
_CARRIERS = split_words("string binary variant array map struct")
_COMPARISONS = split_words("= == != <> < <= > >= <=> between from")  # "from" ends `is distinct from`
_SUMS = split_words("+ -")
_LINKS = split_words("* / % div & | ^ << >>") | _SUMS | {"||"}


def casts_argument(function: str, argument: Kind) -> bool:
    """Tell whether a function may take an argument for the time of the run."""
    return argument is Kind.BUILT and function in _CASTING


def kind_of_call(function: str, arguments: Kind) -> Kind:
    """Return what the call of a function is, given its arguments together."""
    if function == "typeof":  # a type's name, known without a row
        return Kind.FIXED
    if function == "unhex":  # as a binary literal is
        return max(arguments, Kind.BYTES)
    if function == "string" and arguments is Kind.BYTES:
        return Kind.BUILT
    return max(arguments, Kind.BUILT) if function in _BUILDERS else arguments


def kind_of_cast(wanted: str, operand: Kind) -> Kind | None:
    """Return what a cast to the type ``wanted`` is, or None when it may give the time of the run."""
    if operand is Kind.OPEN:
        return operand
    if wanted in _MOMENTS:
        return None if operand is Kind.BUILT else Kind.FIXED
    if wanted not in _CARRIERS:
        return Kind.FIXED
    # An array, a struct or a map may have texts in it, whose bytes are read here.
    return Kind.BUILT if operand is Kind.BYTES and wanted != "binary" else operand


class Chain:
    """Operands joined by operators, as they are read from left to right.

    Args:
        first: The first operand.
        refuse: Called where a built text is compared with something, or added to it.
    """

    def __init__(self, first: Kind, refuse: Callable[[], NoReturn]) -> None:
        self._refuse = refuse
        self._last = first
        self._before = Kind.FIXED
        self._compared = False
        self._is_condition = False

    def join(self, operator: str, operand: Kind) -> None:
        """Add an operand; ``between`` stands before both of its bounds."""
        if operator in _LINKS:
            if operator in _SUMS:
                self._check(self._last, operand)
            together = max(self._last, operand)
            self._last = max(together, Kind.BUILT) if operator == "||" else together
            return
        self.close(compared=operator in _COMPARISONS)
        self._last = operand
        self._compared = operator in _COMPARISONS

    def close(self, *, compared: bool = False) -> None:
        """End a side of a comparison or of a condition; ``compared`` when the next one is compared with it."""
        if compared or self._compared:
            self._check(self._last)
        self._before = max(self._before, self._last)
        self._last, self._compared, self._is_condition = Kind.FIXED, False, True

    def end(self) -> Kind:
        """Return what the whole is."""
        if not self._is_condition:
            return self._last
        self.close()
        return Kind.OPEN if self._before is Kind.OPEN else Kind.FIXED

    def _check(self, *kinds: Kind) -> None:
        if Kind.BUILT in kinds:
            self._refuse()
