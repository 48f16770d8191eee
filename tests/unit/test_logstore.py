from types import SimpleNamespace
from typing import Any

import pytest

from enrich.base.errors import EnvironmentFault
from enrich.spark.logstore import require_exclusive_commits


def session(**settings: str) -> Any:
    """Return what has the settings of a session."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return SimpleNamespace(conf=SimpleNamespace(get=named.get))


SAFE = session(spark__delta__logStore__s3a__impl="io.delta.storage.S3DynamoDBLogStore")


@pytest.mark.parametrize(
    "settings",
    [
        session(),
        session(spark__delta__logStore__s3a__impl="io.delta.storage.S3SingleDriverLogStore"),
        session(spark__delta__logStore__class="org.apache.spark.sql.delta.storage.S3SingleDriverLogStore"),
    ],
)
def test_a_target_in_s3_is_refused_where_two_drivers_could_overwrite_each_other(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    with pytest.raises(EnvironmentFault, match=r"spark\.delta\.logStore\.s3a\.impl"):
        require_exclusive_commits("s3a://bucket/lake/t", settings)
    require_exclusive_commits("/lake/t", settings)
    require_exclusive_commits("abfss://box@account/lake/t", settings)


def test_a_log_store_for_several_drivers_and_databricks_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    require_exclusive_commits("s3a://bucket/lake/t", SAFE)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    require_exclusive_commits("s3a://bucket/lake/t", session())
