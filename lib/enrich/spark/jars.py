"""Find Java, and provide the five Delta jars that pyspark lacks: from Maven into a cache, once, or from a directory.

The resolver is Spark's own (Ivy), so the machine's settings for it count: proxies in ``JAVA_TOOL_OPTIONS``, mirrors in
``spark.jars.ivySettings`` or ``spark.jars.repositories``, ``~/.m2`` and ``~/.ivy2`` as first places to look.
``python -m enrich.spark`` fills the cache ahead of time. See ``docs/adr/0003-delta-jars.md``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, version
from itertools import product
from pathlib import Path
from typing import NamedTuple

from enrich.base.errors import EnvironmentFault
from enrich.base.failures import SPARK, describe_missing, install
from enrich.base.names import POSITIONAL

log = logging.getLogger(__name__)

SCALA = "2.13"
PAIRS = (("4.0", "4.4.0"), ("4.1", "4.4.0"), ("4.2", "4.4.0"))
"""Spark's minor version and Delta's version, where both were tried together: docs/adr/0018-distribution.md."""

DIGESTS = {
    "delta-spark_4.0_2.13-4.4.0.jar": "49e899667168b9412f83cbe894ce264107d7b896d6c5e12edca4e216845c1104",
    "delta-spark_4.1_2.13-4.4.0.jar": "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    "delta-spark_4.2_2.13-4.4.0.jar": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "delta-kernel-api-4.4.0.jar": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "delta-kernel-defaults-4.4.0.jar": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    "delta-kernel-unitycatalog-4.4.0.jar": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
}
"""SHA-256 of the jars as Maven Central has them: a mirror or a cache may hold something else under these names."""

PATIENCE = 600  # seconds for 12 MB over a slow line
# Everything but `io.delta` and its kin, as Ivy globs: pyspark's wheel holds the rest (33 jars become 5).
OTHERS = "[^i]*:*,io.[^d]*:*"
# Lines of a JVM that ends badly which say nothing of the cause.
NOISE = re.compile(r"\s*at |Error: |Error occurred during initialization|Picked up |An error occurred while calling ")
# Of Java, for Spark 4.0 to 4.2; Hadoop's security calls are gone from Java 24 on.
SUPPORTED = (17, 21)
ADVICE = "install a Java 17 (for example openjdk-17-jre-headless) and put it on PATH, or set JAVA_HOME"


class Release(NamedTuple):
    """The minor version of Spark and the version of Delta, which decide which jars are needed."""

    spark: str
    delta: str

    @classmethod
    def installed(cls) -> Release:
        """Return those that are installed; an EnvironmentFault where one is missing or there are no jars for both."""
        try:
            spark, delta = version("pyspark"), version("delta-spark")
        except PackageNotFoundError as error:
            raise describe_missing(SPARK, str(error.name)) from None
        found = cls(".".join(spark.split(".")[:2]), delta)
        if found not in PAIRS:
            known = " or ".join(f"pyspark {pair[0]} with delta-spark {pair[1]}" for pair in PAIRS)
            message = f"pyspark {spark} and delta-spark {delta} are installed, enrich works with {known}"
            raise EnvironmentFault(message, hint=f"run `{install(SPARK)}`")
        return found

    @property
    def coordinate(self) -> str:
        """The Maven coordinate that brings all five."""
        return f"io.delta:delta-spark_{self.spark}_{SCALA}:{self.delta}"

    @property
    def folder(self) -> str:
        """The name of this release's directory in the cache."""
        return f"delta-{self.delta}-spark-{self.spark}-scala-{SCALA}"

    @property
    def names(self) -> tuple[str, ...]:
        """The jars' file names as Maven writes them; Ivy puts ``io.delta_`` before them."""
        parts = (f"spark_{self.spark}_{SCALA}", "storage", "kernel-api", "kernel-defaults", "kernel-unitycatalog")
        return tuple(f"delta-{part}-{self.delta}.jar" for part in parts)


def find_delta_jars(
    directory: str | None = None, conf: Mapping[str, str] | None = None, *, fetch: bool = True
) -> tuple[Path, ...]:
    """Return the five jars, absolute; without ``fetch`` none where the cache lacks one.

    They lie in ``directory`` (``spark: {jars: DIR}``; ``ENRICH_JARS`` wins), or in the cache, which the resolver fills
    by its settings in ``conf``. Where that is not possible, that is an EnvironmentFault.
    """
    release = Release.installed()
    if given := os.environ.get("ENRICH_JARS") or directory:
        return _take_from_directory(Path(given).expanduser(), release)
    folder = find_cache_directory() / "jars" / release.folder
    found = tuple(folder / name for name in release.names)
    if _holds_release(folder, release):
        return found
    if not fetch:
        return ()
    # Into a directory of our own beside it, which is renamed then: readers see all five or none.
    log.info("fetching Delta %s for Spark %s from Maven into %s (once, 12 MB)", release.delta, release.spark, folder)
    beside = folder.parent
    try:
        beside.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".resolving-", dir=beside, ignore_cleanup_errors=True) as workspace:
            ivy, fetched = Path(workspace, "ivy"), Path(workspace, "jars")
            _resolve(ivy, release, conf or {})
            fetched.mkdir()
            for source, name in zip(_take_from_directory(ivy / "jars", release), release.names, strict=True):
                shutil.move(source, fetched / name)
            if not _holds_release(fetched, release):
                raise EnvironmentFault(
                    f"what the resolver brought is not what was released as {release.coordinate}",
                    hint="check the mirror, or put the jars of your choice into a directory and name it in ENRICH_JARS",
                )
            if not _holds_release(folder, release):  # else another process was faster
                with suppress(FileNotFoundError):
                    folder.rename(Path(workspace, "broken"))
                try:
                    fetched.rename(folder)
                except OSError:
                    if not _holds_release(folder, release):
                        raise
    except OSError as error:
        raise EnvironmentFault(
            f"the Delta jars could not be stored in {str(folder)!r}: {error.strerror}",
            hint="free some space there, or set ENRICH_CACHE to a directory that can be written",
        ) from error
    return found


def list_lacking_names(jars: Sequence[Path]) -> list[str]:
    """Return what a commit by position calls and Delta does not have in these jars: then rows are written by MERGE."""
    found = dict.fromkeys(POSITIONAL, b"")
    for path, name in product(jars, POSITIONAL):
        with suppress(KeyError, OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as jar:  # it may be in another one
            found[name] += jar.read(f"org/apache/spark/sql/delta/commands/{name}$.class")
    needed = [(name, each) for name, methods in POSITIONAL.items() for each in methods]
    return [f"{name}.{each}" for name, each in needed if each.encode() not in found[name]]


def find_cache_directory() -> Path:
    """Return ``$ENRICH_CACHE``, else ``$XDG_CACHE_HOME/enrich``, else ``~/.cache/enrich``."""
    if own := os.environ.get("ENRICH_CACHE"):
        return Path(own).expanduser().absolute()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "enrich"
    except RuntimeError as error:
        hint = "set ENRICH_CACHE to a directory"
        raise EnvironmentFault("there is no home directory for the Delta jars", hint=hint) from error


def find_spark_home() -> Path:
    """Return the Spark that pyspark will start: ``SPARK_HOME``, if of pyspark's minor version, else the wheel's."""
    own = os.environ.get("SPARK_HOME")
    if not own:
        return Path(str(distribution("pyspark").locate_file("pyspark")))
    wanted = version("pyspark")
    cores = sorted(Path(own, "jars").glob("spark-core_*.jar"))
    if cores and f"-{wanted.rpartition('.')[0]}." not in cores[0].name:
        hint = "unset SPARK_HOME, or install the pyspark of that Spark"
        raise EnvironmentFault(f"SPARK_HOME is {own!r} with {cores[0].name}, but pyspark is {wanted}", hint=hint)
    return Path(own)


def condense(output: str) -> str:
    """Return the one line of a JVM's ``output`` that says what went wrong, without addresses."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not NOISE.match(line)]
    telling = [line for line in lines if line.startswith("Exception in thread")]
    telling += [line for line in lines if re.search(r"exception|error|could not|unresolved", line, re.IGNORECASE)]
    line = (telling[:1] or lines[-1:] or ["it printed nothing"])[0]
    line = re.sub(r'^Exception in thread "[^"]*" ([\w.$]+: )?', "", line)
    return re.sub(r"\w+://\S+", "<address>", line).strip(" :[]")[:200]


def _take_from_directory(directory: Path, release: Release) -> tuple[Path, ...]:
    either = {name: (directory / name, directory / f"io.delta_{name}") for name in release.names}
    found = {name: next(filter(Path.is_file, paths), None) for name, paths in either.items()}
    if missing := [name for name, path in found.items() if path is None]:
        hint = f"copy the jars of {release.coordinate} from Maven into it"
        raise EnvironmentFault(f"the configured jar directory {str(directory)!r} lacks {', '.join(missing)}", hint=hint)
    return tuple(path.absolute() for path in found.values() if path is not None)


def _holds_release(folder: Path, release: Release) -> bool:
    """Tell whether a directory has the jars that were released under their names (12 MB for all five: 12 ms)."""
    try:
        found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in release.names}
    except OSError:
        return False
    return all(DIGESTS.get(name) == digest for name, digest in found.items())


def _resolve(ivy: Path, release: Release, conf: Mapping[str, str]) -> None:
    """Let Spark's launcher resolve; its gateway ends at once because its standard input is empty."""
    require_java()
    command = [str(find_spark_home() / "bin" / "spark-submit"), "--master", "local[1]"]
    for key in ("spark.jars.ivySettings", "spark.jars.repositories"):
        if key in conf:
            command += ["--conf", f"{key}={conf[key]}"]
    command += ["--conf", f"spark.jars.ivy={ivy}", "--packages", release.coordinate, "--exclude-packages", OTHERS]
    # The Java gateway writes its address there and would start no process of ours.
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_REMOTE"))}
    env["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(ivy.with_name("gateway"))
    failed = f"the Delta jars ({release.coordinate}) cannot be fetched from Maven"
    hint = "check the network, or put the five io.delta jars into a directory and name it in ENRICH_JARS"
    try:
        answer = subprocess.run(  # noqa: S603 - Spark's own launcher, arguments from our versions
            [*command, "pyspark-shell"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(f"{failed}: it took longer than {PATIENCE} s", hint=hint) from error
    if answer.returncode or not (ivy / "jars").is_dir():
        raise EnvironmentFault(f"{failed}: {condense(answer.stdout)}", hint=hint)


def require_java() -> Path:
    """Return the Java that Spark will start: that of JAVA_HOME and nothing else where it is set, else of PATH.

    If there is none, if it does not run, or in a version that Spark does not support, that is an EnvironmentFault.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise EnvironmentFault("no Java found: JAVA_HOME is not set and there is no java on PATH", hint=ADVICE)
    if home and not os.access(found, os.X_OK):
        raise EnvironmentFault(f"JAVA_HOME is {home!r}, which has no bin/java", hint=ADVICE)
    # From the installation's release file (no process), else by asking the java that Spark itself would start.
    try:
        said = Path(os.path.realpath(found)).parent.with_name("release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        ask = [found, "-version"]
        try:
            answer = subprocess.run(ask, capture_output=True, text=True, errors="replace", timeout=30, check=True)  # noqa: S603
        except (OSError, subprocess.SubprocessError) as error:
            raise EnvironmentFault(f"{found!r} does not start ({type(error).__name__})", hint=ADVICE) from error
        said = answer.stderr + answer.stdout
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', said)
    if match is None:
        raise EnvironmentFault(f"{found!r} does not print its version", hint=ADVICE)
    if (major := int(match[1])) not in SUPPORTED:
        wanted = " or ".join(map(str, SUPPORTED))
        raise EnvironmentFault(f"{found!r} is Java {major}, Spark 4 runs on Java {wanted}", hint=ADVICE)
    return Path(found)
