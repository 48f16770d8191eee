"""What all rooms share: errors, results, the words of a compiled job, text for terminals, whole files."""
