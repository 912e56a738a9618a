"""Scenarios: the public suite and the import of maps."""
