"""Hold what all subpackages share: errors, results, the parts of a compiled job, text for terminals, whole files."""
