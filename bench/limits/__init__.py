"""Compute which published AWS limits bind, by job size and number of workers.

record: the requests of a recorded job by item, measured on the embedded AWS. recorded:
that recording, as amounts per chunk, per group and per job. quotas: the limits, each
with its AWS page. model: the limit that binds, and its effect on the job's duration.
page: docs/aws-limits.md, generated from all this.
"""
