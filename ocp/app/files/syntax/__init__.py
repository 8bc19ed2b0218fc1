"""The syntax of every file: strict YAML, expressions, the declaration of keys, and reading by it."""
