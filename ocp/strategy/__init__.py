"""How answers are found: one loop, and the table of the rules that it asks."""
