"""What AWS will bill for: counted as requests are answered, and kept with each job.

    units       AWS's published rules: what an item, a payload, a request counts as
    capacity    what a request to DynamoDB consumed: as AWS says, else by the rules
    owners      whose request it was: the jobs that it was made for
    reading     a request and its answer -> what there is to count
    cost_meter  the counts of one process, by job
    sharing_time  whose time it was
    listening   tells the meter of every request that a client sends
    keeping     writes the counters, rarely and beside the work

Only additions happen beside a request. Nothing that goes wrong here reaches the work:
a count that cannot be written is dropped, and that it was is counted.
"""

from piecework.cost.meter import CostMeter, acting_as
from piecework.cost.persistence import Keeper

__all__ = ["CostMeter", "Keeper", "acting_as"]
