"""Mnemopi: the embedded memory engine in one database file."""
