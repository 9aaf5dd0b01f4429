"""Recall without a model: terms, time phrases, candidates, ranking."""
