"""Where an emulator's DynamoDB is known not to be AWS's, and why it does not matter.

A difference matters to a reader of a green run. Tests on an emulator do not find what
it takes and AWS refuses. The model refuses it.
"""

from __future__ import annotations

from verification.conformance.probe import KNOWN

MINISTACK = {
    "a REMOVE alone creates nothing": ("bare, bare", "it creates the item first"),
    "a DELETE from a set alone creates nothing": (
        "bare, bare",
        "it creates the item first",
    ),
    "an attribute twice on the left": ("bare", "paths are not compared"),
    "a section twice": ("m=1", "sections may repeat"),
    "the sum of a text and a number": ("n=10 s=10", "it keeps the first operand"),
    "the sum of an empty text and a number": ("n= s=", "it keeps the first operand"),
    "an attribute compared with itself": ("yes", "operands are not compared"),
    "the order of a boolean": ("no", "operands' types are not checked"),
    "the beginning of a number": ("no", "operands' types are not checked"),
    "the idle zeros of a number are trimmed in a transaction": (
        "01.50",
        "a put or an update alone trims them, a transaction keeps them",
    ),
    "38 digits are exact": (
        f"n=1{'0' * 37}",
        "it reckons with the 28 digits of Python's decimals",
    ),
}
MOTO = {
    "an update without an expression creates a bare item": ("500", "it falls over"),
    "a REMOVE alone creates nothing": ("bare, bare", "it creates the item first"),
    "a DELETE from a set alone creates nothing": (
        "bare, bare",
        "it creates the item first",
    ),
    "a boolean equals itself alone": ("yes no yes", "to Python, true is 1"),
    "a page that begins in another partition": (
        "Z a#1 a#10 a#2 b#1 é",
        "the start's partition is not looked at",
    ),
    "values without an expression": ("done", "they are not looked at"),
    "an expression that ends too soon": ("500", "it falls over"),
    "an attribute compared with itself": ("yes", "operands are not compared"),
    "the order of a boolean": ("no", "operands' types are not checked"),
    "the beginning of a number": ("no", "operands' types are not checked"),
    "a set with a member twice": (
        "broken: ValueError",
        "1 and 1.0 are two members, compared as texts",
    ),
    "the idle zeros of a number are trimmed in a put": (
        "01.50 2E1 .1",
        "numbers are kept as texts",
    ),
    "the idle zeros of a number are trimmed in an update": (
        "01.50 2E1 .1",
        "numbers are kept as texts",
    ),
    "the idle zeros of a number are trimmed in a transaction": (
        "01.50",
        "numbers are kept as texts",
    ),
    "39 digits": (f"n=1{'0' * 37}1", "numbers have no limit"),
    "an item of 400 KB": ("ValidationException", "it counts more bytes"),
    "the same token again does nothing": ("done done n=2", "tokens are ignored"),
    "another transaction with the same token": ("done", "tokens are ignored"),
    "a wrong type in a transaction": (
        "ValidationException",
        "the request is refused, not the action",
    ),
    "an idle value in a transaction": ("done", "values are not counted there"),
    **dict.fromkeys(
        (
            "insertions create items",
            "an insertion of an existing item fails alone",
            "an insertion with too few values fails alone",
            "26 statements in a batch",
        ),
        ("500", "it reads no parameters of a statement that inserts"),
    ),
}

KNOWN.update({(name, "ministack"): known for name, known in MINISTACK.items()})
KNOWN.update({(name, "moto"): known for name, known in MOTO.items()})
