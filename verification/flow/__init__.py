"""Measure how work flows: limits, rate limits, poison inputs; `make flow`."""
