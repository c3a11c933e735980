"""Batches of requests at a provider: cheaper answers, hours later."""
