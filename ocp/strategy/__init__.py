"""The search for a certified answer: one loop and the table of its rules."""
