"""Do what the Python functions and the commands ask of a project: load, run, plan, verify, inspect."""
