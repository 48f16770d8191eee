"""Know what a target has consumed and what the next run has to consume: cursor, window, ``--since``, the plan."""
