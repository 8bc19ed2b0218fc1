"""``ocp verify``: every problem of a gallery solved, certified and compared with its reference."""
