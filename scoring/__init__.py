"""Metrics, statistics and scores, exact and standard library only."""
