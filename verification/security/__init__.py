"""What somebody means who writes to our queue, our tables or our bucket: no harm done.

`python -m verification.security` runs it at full size and prints the figures of `SECURITY.md`.
"""
