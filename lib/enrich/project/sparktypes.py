"""The types of expressions, as Spark finds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from enrich.base.errors import ConfigError
from enrich.base.schemas import build_struct
from enrich.base.spec import DataType


def build_typer(session: SparkSession) -> Callable[[Mapping[str, DataType], str], DataType]:
    """Return a function that lets Spark type an expression over a frame of the given columns.

    Raises:
        ConfigError: (the function) Spark refuses the expression; the message holds its error condition alone.
    """

    def type_of(columns: Mapping[str, DataType], expression: str) -> DataType:
        frame = session.createDataFrame([], T.StructType.fromJson(build_struct(columns)))
        try:
            found: DataType = frame.select(F.expr(expression).alias("found")).schema["found"].dataType.jsonValue()
        except PySparkException as error:
            condition = error.getCondition() or type(error).__name__
            raise ConfigError(f"Spark refuses {expression!r}: {condition}") from None
        return found

    return type_of
