"""The Hindsight server's HTTP API."""
