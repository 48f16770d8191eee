"""What the Python functions and the commands do over a project: load, run, plan, verify, inspect."""
