"""Compile a job file with its tables' schemas into what the engine runs; every fault with its line, and no JVM.

``expressions`` (its own package) knows names, ``columns`` puts them together with types for one job, ``steps`` resolves
the joins, ``compile`` makes the spec.
"""
