"""One conversation's life with one bank: recall before the model answers, retain after it has."""
