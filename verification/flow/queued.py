"""The pipeline of a second fleet of workers, which has a queue of its own."""

from __future__ import annotations

from piecework import Pipeline, Stage
from verification.flow.calling import Batch, ask_freely

QUEUE = "apart"
apart = Pipeline("apart", payload=Batch, stages=[Stage(ask_freely)], queue=QUEUE)
#: The same pipeline in the queue that all share, for a comparison.
shared = Pipeline("shared", payload=Batch, stages=[Stage(ask_freely)])
