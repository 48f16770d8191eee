"""Quality gates: suites in Great Expectations' format, judged over the staged rows before anything is written.

`enrich.quality.suites` reads suites without Spark and without GX; `enrich.quality.judge` needs both.
"""

from enrich.quality.judge import Verdict, judge
from enrich.quality.suites import Rule, Suite, check_columns, columns, load_suite, quarantine_fingerprint

__all__ = ["Rule", "Suite", "Verdict", "check_columns", "columns", "judge", "load_suite", "quarantine_fingerprint"]
