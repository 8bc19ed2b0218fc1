"""Problem files and inverse-kinematics files: strict YAML, schema, expressions, and the way to a Problem."""
