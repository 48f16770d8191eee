"""Say why cells are null, and what would repair it: for one key, for the rows that fail a rule, for the keys of a job.

``question`` answers for one key, ``failing_rows`` for a rule, both by ``evidence``; ``near_misses`` compares keys, and
``doctor`` looks at machine and tables. Nothing is written, and no value is told. A session that is given as ``spark``
has Delta, and is left as it was found; None: the active one, or one is built.
"""
