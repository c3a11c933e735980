"""The invariants that the simulator checks at each write and at the end."""
