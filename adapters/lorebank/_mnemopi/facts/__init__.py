"""What memories state by rule, and which statement holds now."""
