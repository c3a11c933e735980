"""Explain why a job does not end: findings from one read of its record.

read_situation   reads the record in at most 20 requests, whatever the job's size
find             decides: the findings of a situation, the most important first
FINDINGS         the table of all kinds of findings, with their stable codes
"""
