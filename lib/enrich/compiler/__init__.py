"""A job file and the schemas of its tables -> what the engine runs; every fault with its line, and no JVM.

``schemas`` knows types, ``expressions`` (its own package) knows names, ``columns`` puts both together for one job,
``steps`` resolves the joins, ``compile`` makes the spec.
"""

from enrich.compiler.compile import CompiledJob, check_file, compile_job, list_target_columns

__all__ = ["CompiledJob", "check_file", "compile_job", "list_target_columns"]
