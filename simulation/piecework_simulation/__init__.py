"""Run the real code deterministically, in virtual time, on a faulty model of AWS.

Submit, workers, reconcilers and operator commands run unchanged. Each is a process of
its own on one event loop. A seed decides everything: the order of callbacks, the
latency of requests, and lost replies. It also decides which process is killed or
frozen. The simulator checks every table write as it happens. Once the faults end, every
job must end, too. A seed that violates an invariant reproduces the same violation in
every run.
"""
