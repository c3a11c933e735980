"""Repair what a crashed process left behind.

    a submit that stopped half-way          the reconciler finishes it from the manifest
    a chunk whose message was lost          it sends the message again
    a chunk whose lease expired             it releases the chunk, and sends its message
    a job whose chunks have all ended       it starts the join
    a message in the dead-letter queue      it sends it again, or quarantines it

Several reconcilers may run at once: each write depends on what was just read, and a
repeated action changes nothing.
"""

from piecework.reconciler.loop import reconcile_for_ever, reconcile_once

__all__ = ["reconcile_for_ever", "reconcile_once"]
