"""The crash-point sweep: one death, at every external call that a job makes.

In the scenarios of six steps also at every step of each worker's loop: at every
`await`.

A job is run once without trouble, and every request to AWS and every call to the
outside is counted. Then it is run again for each of them, and with each way in which
it can be cut off, and each time it must come to the same end.
"""
