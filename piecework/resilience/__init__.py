"""Decide about retries, breakers, limits and budgets; the decorators act."""
