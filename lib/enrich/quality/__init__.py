"""Judge the staged rows by the rules of suites, before anything is written.

`enrich.project.suitefiles` reads suites without Spark and without GX; `enrich.quality.judge` needs both.
"""
