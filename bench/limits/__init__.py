"""At which size, and with how many workers, AWS's published limits bind.

record    what one job asks of which item, written down on the embedded AWS
recorded  that recording, read: so much a chunk, so much a group, so much a job
quotas    the limits, each with the page of AWS that says so
demand    what a job of any size asks of each of them
model     which of them binds, and what that does to the job's time
page      docs/limits.md, written from all this
"""
