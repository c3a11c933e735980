"""Put right what nobody else will: the net under every step that can be lost.

    a submit that stopped half-way       is finished from its manifest
    a chunk whose message was lost       is sent again
    a chunk whose worker died            is given back, and sent again
    a full job that nobody finished      is moved to its join
    a message that SQS dead-lettered     is sent again, or explained

Any number may run at once, beside workers or alone: every act is conditional on what
was just read, and doing it twice is harmless.
"""

from piecework.reconciler.loop import reconcile_for_ever, reconcile_once

__all__ = ["reconcile_for_ever", "reconcile_once"]
