"""What AWS will bill for: counted as requests are answered, and kept with each job.

    units        AWS's published rules: what an item, a payload, a request counts as
    attribution  the jobs for which a request was made, and the share of each
    meter        counts the requests that a client sends, and the time of work, by job
    persistence  writes the counters, rarely and beside the work

Only additions happen beside a request. Nothing that goes wrong here reaches the work. A
count that cannot be written is dropped, and the drop is counted.
"""

from piecework.cost.meter import CostMeter, acting_as
from piecework.cost.persistence import Keeper

__all__ = ["CostMeter", "Keeper", "acting_as"]
