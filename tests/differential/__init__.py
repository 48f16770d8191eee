"""Differential tests: thousands of random histories in one run, compared with references without any code of enrich.

    generator -> histories (abstract, JSON) -> writer (delta-rs) -> engine under test -> reader (delta-rs)
                                            -> model (plain Python)                   -> compare -> shrink -> cases/
                                            -> oracle (DuckDB SQL over the sources)

The history's number stands inside every key (``h00042|c3``), so that one Spark job carries thousands of independent
histories through unchanged product code.
"""
