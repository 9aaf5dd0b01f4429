"""Delivery: from the ledger to the server, in the background."""
