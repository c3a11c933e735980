"""Measure how a fleet uses the quota of its providers; `make flow` runs all."""
