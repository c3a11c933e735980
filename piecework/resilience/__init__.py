"""Retry policy and circuit breaker: pure decisions, and their decorators."""
