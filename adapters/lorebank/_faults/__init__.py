"""A loopback HTTP server that misbehaves on request: a small Hindsight, a proxy, or recorded answers."""
