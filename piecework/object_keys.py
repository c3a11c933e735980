"""Which texts may be keys of objects, whoever resolves, decodes or folds them later."""

from __future__ import annotations

import unicodedata
from urllib.parse import unquote

#: Bytes of an object's key, as S3 has it.
KEY_BYTES = 1_024
#: How often a key is decoded; what has more to it hides something.
_DECODED_TIMES = 8
#: What is drawn like a slash, and no form of one to Unicode.
_LOOK_ALIKES = dict.fromkeys(map(ord, "\u2044\u2215\u29f5\u29f8\u29f9\u2571"), "/")


def is_object_key(text: str) -> bool:
    """Say whether a text may be the key of an object, whoever is asked for it.

    Object stores take any text; the file systems, proxies and libraries on the way to
    them may not: they resolve `..`, decode `%2e`, fold look-alikes, stop at a NUL.
    """
    if not 0 < len(text.encode(errors="replace")) <= KEY_BYTES:
        return False
    for _ in range(_DECODED_TIMES):
        before = text
        text = unquote(unicodedata.normalize("NFKC", text).translate(_LOOK_ALIKES))
        if text == before:
            break
    else:
        return False
    parts = [part.partition(";")[0] for part in text.split("/")]
    plain = text.isprintable() and "\\" not in text and "\ufffd" not in text
    return plain and not any(part in {"", ".", ".."} for part in parts)
