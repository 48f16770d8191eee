"""Fetch the Delta jars and write down the JVM's classes ahead of the first run: ``python -m enrich.spark``."""

from __future__ import annotations

import logging
import sys

from enrich.base.errors import EnvironmentFault
from enrich.spark.archive import build_archive
from enrich.spark.jars import find_delta_jars


def main() -> int:
    """Fill the cache and return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        find_delta_jars()
        build_archive()
    except EnvironmentFault as fault:
        logging.getLogger(__name__).error("%s", fault)
        return fault.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
