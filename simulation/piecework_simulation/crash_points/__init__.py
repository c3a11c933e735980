"""Sweep crash points: one crash at every external call of a job.

The scenarios of six steps also crash at every step of each worker's loop: at every
`await`. The sweep runs a job once without a fault. It counts every request to AWS and
every call to a provider. It then runs the job again for each of them, in each fault
mode. Every run must reach the same final state.
"""
