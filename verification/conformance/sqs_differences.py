"""Where an emulator's SQS is known not to be AWS's."""

from __future__ import annotations

from verification.conformance.probe import KNOWN

CHARACTERS = "does not look at a body's characters"
NUMBERS = "does not look at the number's size"
HANDLES = "looks for the handle alone"
MINISTACK = {
    "a message is delayed for 900 s at the most": ("", NUMBERS),
    "a receive hides for 12 hours at the most": ("accepted, accepted", NUMBERS),
    "a receive waits for 20 s at the most": ("", NUMBERS),
    "a message is hidden for 12 hours at the most": ("", NUMBERS),
    "12 hours from the receive is the limit of hiding": ("", NUMBERS),
    "what is visible again cannot be hidden": ("accepted, nothing", HANDLES),
    "deleting twice is no error": (
        "accepted, ReceiptHandleIsInvalid",
        "knows the handles of messages that are there",
    ),
    "an old handle is taken, and may delete or not": (
        "ReceiptHandleIsInvalid",
        "knows the newest handle of a message",
    ),
}
MOTO = {
    "a message needs a body": ("", "does not look for one"),
    "a body has no control characters": ("", CHARACTERS),
    "nor what is no character at all": ("", CHARACTERS),
    "one bad entry fails alone, and says whose fault it is": ("done 01", CHARACTERS),
    "the size is that of the bytes": ("", "counts characters"),
    "what is visible again cannot be hidden": ("accepted, nothing", HANDLES),
    "a message in the DLQ names its source queue": (
        "nothing",
        "does not know the attribute",
    ),
}
KNOWN.update({(name, "ministack"): known for name, known in MINISTACK.items()})
KNOWN.update({(name, "moto"): known for name, known in MOTO.items()})
