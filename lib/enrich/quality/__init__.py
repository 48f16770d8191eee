"""Quality gates: the rules of suites, judged over the staged rows before anything is written.

`enrich.project.suitefiles` reads suites without Spark and without GX; `enrich.quality.judge` needs both.
"""
