"""The protocol of cursor and commits, explored: the product's own decisions over tables that are values."""
