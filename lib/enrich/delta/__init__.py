"""Touch Delta tables and the state directory: logs, rows, commits, runs table, locks."""
