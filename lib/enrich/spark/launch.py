"""Start Spark's JVM, whose output may hold values, and keep the process's own way to end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from enrich.base.errors import EnvironmentFault
from enrich.spark.jars import condense
from enrich.spark.scratch import make_private_directory


def launch_jvm(settings: Mapping[str, str]) -> Any:
    """Start the JVM; what it prints goes to a file of our own, for it may hold cell values.

    The JVM ends when this process does: its standard input is a pipe that we hold.

    Raises:
        EnvironmentFault: It does not start.
    """
    launch_conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        launch_conf.set(key, value)
    output = make_private_directory() / "jvm.log"
    launch: Callable[..., Any] = launch_gateway
    with output.open("wb") as sink:
        try:
            return launch(launch_conf, popen_kwargs={"stdout": sink, "stderr": sink})
        except (PySparkRuntimeError, OSError) as error:
            said = condense(output.read_text(encoding="utf-8", errors="replace"))
            raise EnvironmentFault(
                f"Spark's JVM does not start: {said}", hint="check spark.driver.* in conf/ and JAVA_TOOL_OPTIONS"
            ) from error


def keep_remains_private() -> tuple[str, ...]:
    """Return the options by which a JVM leaves nothing outside this process's directory, also when it dies.

    Its temporary files would stay in ``/tmp``. What it writes when it crashes (``hs_err_pid*.log``, a core) would stand
    in the current directory, which may be the project's, and holds the environment and pieces of memory.
    """
    temporary = make_private_directory() / "java"
    temporary.mkdir(exist_ok=True)
    report = temporary / "hs_err_pid%p.log"
    return f'"-Djava.io.tmpdir={temporary}"', f'"-XX:ErrorFile={report}"', "-XX:-CreateCoredumpOnCrash"


@contextmanager
def keep_sigint() -> Iterator[None]:
    """Keep a handler of SIGINT that somebody has set.

    pyspark puts its own in its place while it starts, which asks the JVM to cancel all jobs. If another question to the
    JVM is open, as it is most of the time, that fails, and looks as if Spark did not start.
    """
    before: Callable[..., Any] | int | None = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (None, signal.default_int_handler):
        yield
        return
    module: Any = sys.modules[SparkContext.__module__]
    module.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)
    try:
        yield
    finally:
        module.signal = signal
