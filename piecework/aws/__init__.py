"""Adapters of the AWS services: queue, objects, endpoint, and the thin transport."""
