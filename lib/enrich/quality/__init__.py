"""Quality gates: suites in Great Expectations' format, judged over the staged rows before anything is written.

`enrich.quality.suites` reads suites without Spark and without GX; `enrich.quality.judge` needs both.
"""
