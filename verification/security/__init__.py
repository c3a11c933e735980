"""Attacks by a writer of the queue, the tables or the bucket do no harm.

`python -m verification.security` runs them at full size, and prints the figures of
`SECURITY.md`.
"""
