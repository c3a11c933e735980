"""Piecework beside what a team would pick instead: the same work in the same run."""
