"""What is heard of Great Expectations: class names of errors, and nothing else."""

from __future__ import annotations

import logging
import warnings

from enrich.quality.gx import name_error, silence_gx


def test_quiet_silences_and_restores() -> None:
    logger = logging.getLogger("great_expectations.execution_engine")
    states = [logger.disabled]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with silence_gx():
            states.append(logger.disabled)
            warnings.warn("a value", stacklevel=1)
        assert told == []
    assert [*states, logger.disabled] == [False, True, False]


def test_error_class_never_holds_the_message() -> None:
    class Odd(Exception):
        def getCondition(self) -> str:  # noqa: N802 - pyspark's name
            raise RuntimeError("secret")

    class Coded(Exception):
        def getCondition(self) -> str:  # noqa: N802 - pyspark's name
            return "CAST_INVALID_INPUT"

    assert name_error(ValueError("secret")) == "ValueError"
    assert name_error(Odd("secret")) == "Odd"
    assert name_error(Coded("secret")) == "Coded[CAST_INVALID_INPUT]"
