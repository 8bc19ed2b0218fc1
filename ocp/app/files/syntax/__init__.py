"""What every file is written in: strict YAML, expressions, the declaration of keys, and reading by it."""
