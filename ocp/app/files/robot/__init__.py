"""What files say of robots: their trees, states, drives, forces and constraints."""
