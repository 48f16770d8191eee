"""Define the verbs of the data path, DataFrame -> DataFrame; they know neither storage nor configuration."""
