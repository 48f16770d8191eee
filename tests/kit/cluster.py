"""A real standalone cluster: a master and two workers from pyspark's own distribution, on the loopback interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from enrich.spark.jars import find_spark_home
from kit.world import find_free_port, running, wait_until

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    # Short programs: they compile quickly rather than well.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""What a driver on this machine needs, and what makes its short programs cheaper."""


@contextmanager
def serve_cluster(directory: Path) -> Iterator[str]:
    """Start a master and two workers with a core each, and return the master's address."""
    home, port = find_spark_home(), find_free_port()
    master = f"spark://127.0.0.1:{port}"

    def start(log: Path, kind: str, *words: object) -> None:
        where = ["--host", "127.0.0.1", "--webui-port", "0"]
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", *where, *words]
        stack.enter_context(running(command, cwd=directory, log=log, SPARK_HOME=str(home)))

    with ExitStack() as stack:
        log = directory / "master.log"
        start(log, "master.Master", "--port", port)
        wait_until(lambda: log.exists() and "Starting Spark master" in log.read_text(), "the master")
        for number in (1, 2):
            work = directory / f"work{number}"
            size = ["--cores", "1", "--memory", "1200m", "--work-dir", work]
            start(directory / f"worker{number}.log", "worker.Worker", "--port", "0", *size, master)
        wait_until(lambda: log.read_text().count("Registering worker") == 2, "two workers")
        yield master
