"""Deliver the deliveries of the outbox to their webhooks over HTTPS, at least once."""
