"""Compute the cost of a job from its counts, and the cost of an idle deployment.

prices.yaml   the shipped prices, each with its source and the date of the check
table         reads them, and overrides from a user's file
bill          counts -> lines -> a total; pure
idle          settings -> the lines of an idle month; pure
"""
