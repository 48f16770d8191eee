"""A real S3 server on the loopback interface: moto in an environment of its own, and what Spark needs to use it."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from obstore.store import S3Store

from enrich.spark.jars import find_spark_home
from kit.airflow import CACHE, PINS
from kit.world import Environment, find_free_port, make_environment, run, running, wait_until

BUCKET = "bucket"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "canary-key", "AWS_SECRET_ACCESS_KEY": "canary-secret"}
NEEDED_BY_NOBODY = "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3,org.wildfly.openssl:wildfly-openssl"


@dataclass(frozen=True)
class S3:
    """A server with one bucket.

    Attributes:
        url: Where it listens.
    """

    url: str

    @property
    def options(self) -> dict[str, str]:
        """What delta-rs and obstore need to reach it."""
        return {
            "aws_endpoint_url": self.url,
            "aws_region": "us-east-1",
            **{name.lower(): value for name, value in CREDENTIALS.items()},
        }

    def table(self, name: str) -> DeltaTable:
        """Open a table below the lake."""
        return DeltaTable(f"s3a://{BUCKET}/{name}", storage_options={**self.options, "aws_allow_http": "true"})

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        from deltalake import QueryBuilder

        found = QueryBuilder().register("t", self.table(name)).execute("SELECT * FROM t").read_all()
        return list(found.to_struct_array().to_pylist())

    def store(self, directory: str) -> S3Store:
        """Open a directory of the bucket."""
        return S3Store(BUCKET, prefix=directory, config=self.options, client_options={"allow_http": True})  # type: ignore[arg-type]

    def fill(self, project: Path, lake: str) -> None:
        """Write the tables of a new project, as other systems would, into a lake of the bucket."""
        options = {**self.options, "aws_allow_http": "true"}
        for place in (project / "lake").iterdir():
            write_deltalake(
                f"s3a://{BUCKET}/{lake}/{place.name}",
                DeltaTable(place).to_pyarrow_table(),
                configuration={"delta.enableChangeDataFeed": "true"},
                storage_options=options,
            )


@contextmanager
def serve(directory: Path) -> Iterator[S3]:
    """Install moto as ``tests/world/object-store.txt`` pins it, and let it serve one bucket."""
    environment = install_server(directory)
    port = find_free_port()
    server = S3(f"http://127.0.0.1:{port}")
    log = directory / "server.log"
    with running([environment.command("moto_server"), "-H", "127.0.0.1", "-p", port], cwd=directory, log=log):
        wait_until(lambda: answers(server.url), "the S3 server")
        asked = urllib.request.Request(f"{server.url}/{BUCKET}", method="PUT")  # noqa: S310 - our own server
        urllib.request.urlopen(asked, timeout=10).close()  # noqa: S310 - the same
        yield server


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()  # noqa: S310 - our own server
    except OSError:
        return False
    return True


def install_server(directory: Path) -> Environment:
    """Return an environment with the server; made once where it is kept."""
    pins = PINS / "object-store.txt"
    (pinned,) = (line for line in pins.read_text().splitlines() if line.startswith("moto=="))
    home = Path(os.environ.get(CACHE) or directory) / pinned.replace("==", "-")
    if not (home / ".ready").exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        make_environment(home).install(f"moto[server,s3]{pinned.removeprefix('moto')}", constraints=pins)
        (home / ".ready").touch()
    return Environment(home)


def find_s3a_jars(directory: Path) -> list[Path]:
    """Return the jars of Hadoop's S3A for this Spark, which Spark's own resolver fetches; without them, skip."""
    home = find_spark_home()
    (client,) = (home / "jars").glob("hadoop-client-api-*.jar")
    release = client.stem.removeprefix("hadoop-client-api-")
    ivy = Path(os.environ.get(CACHE) or directory) / f"hadoop-aws-{release}"
    if not list((ivy / "jars").glob("*.jar")):
        ivy.mkdir(parents=True, exist_ok=True)
        command = [home / "bin" / "spark-submit", "--master", "local[1]", "--conf", f"spark.jars.ivy={ivy}"]
        command += ["--packages", f"org.apache.hadoop:hadoop-aws:{release}", "--exclude-packages", NEEDED_BY_NOBODY]
        told = run(
            [*command, "pyspark-shell"], cwd=ivy, timeout=900, _PYSPARK_DRIVER_CONN_INFO_PATH=str(ivy / "gateway")
        )
        if told.returncode or not list((ivy / "jars").glob("*.jar")):
            pytest.skip(f"hadoop-aws {release} of pyspark {version('pyspark')} cannot be fetched: {told.stderr[-300:]}")
    return sorted((ivy / "jars").glob("*.jar"))


def build_settings(server: S3, jars: list[Path]) -> dict[str, str]:
    """Return the Spark settings that reach the bucket, as docs/clusters.md has them."""
    return {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.hadoop.fs.s3a.endpoint": server.url,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
