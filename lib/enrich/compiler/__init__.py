"""Compile a job file with its tables' schemas into what the engine runs; every fault with its line, and no JVM.

``compile`` resolves names and joins and makes the spec, ``statictypes`` types expressions, ``ddl`` reads types.
"""
