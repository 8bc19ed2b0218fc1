"""Initial guesses by name, in the order in which they are tried."""
