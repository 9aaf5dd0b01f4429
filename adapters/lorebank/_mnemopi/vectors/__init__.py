"""Vectors of memories: how they are stored, made in the background, and searched."""
