"""Which objects are embedders, and the two that are built in."""
