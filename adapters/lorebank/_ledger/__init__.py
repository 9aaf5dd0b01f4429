"""The ledger: writes on their way to a server, and what was last said to it, in a database beside the user's data."""
