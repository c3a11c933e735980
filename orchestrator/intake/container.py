"""The container of a .docx, looked at before anything is unpacked.

A zip of a few kilobytes can unpack to gigabytes, and Word's encrypted files are no zip
at all. The figures come from the zip's own directory; one that lies is found out
later, as reading stops at the size it stated and the checksum fails.
"""

from __future__ import annotations

import io
import zipfile

from orchestrator.intake.limits import Limits
from piecework.errors import UsageError

# OLE, the container of old Word files and, since, of encrypted ones.
OLE = bytes.fromhex("D0CF11E0A1B11AE1")
ENCRYPTED_STREAM = "EncryptedPackage".encode("utf-16-le")

# Marks a member in the directory of a zip.
MEMBER = b"PK\x01\x02"

XML = (".xml", ".rels")

FLAG_ENCRYPTED = 0x1


def require_sound(data: bytes, name: str, limits: Limits) -> None:
    """Refuse what should not be unpacked.

    Raises:
        UsageError: When it is encrypted, no zip, or too large unpacked.
    """
    if data.startswith(OLE):
        raise _encrypted(name) if ENCRYPTED_STREAM in data else _old(name)
    # Counted in the bytes: the directory itself would take memory for each.
    members = data.count(MEMBER)
    if members > limits.docx_members:
        raise _too_large(name, f"{members:,} members, {limits.docx_members:,}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise broken(name, error) from error
    if any(member.flag_bits & FLAG_ENCRYPTED for member in found):
        raise _encrypted(name)
    _weigh(found, len(data), name, limits)


def _weigh(
    found: list[zipfile.ZipInfo], packed: int, name: str, limits: Limits
) -> None:
    unpacked = sum(member.file_size for member in found)
    xml = sum(m.file_size for m in found if m.filename.lower().endswith(XML))
    if unpacked > limits.docx_unpacked_bytes:
        what = f"{unpacked:,} bytes unpacked, {limits.docx_unpacked_bytes:,}"
        raise _too_large(name, what)
    if xml > limits.docx_xml_bytes:
        what = f"{xml:,} bytes of XML unpacked, {limits.docx_xml_bytes:,}"
        raise _too_large(name, what)
    if unpacked > limits.docx_ratio * packed:
        what = f"bytes packed {unpacked // packed:,} to one, {limits.docx_ratio:,}"
        raise _too_large(name, what)


def broken(name: str, error: Exception) -> UsageError:
    """Return the complaint about a file that no reader can open."""
    return UsageError(
        f"{name} is not a whole .docx file ({type(error).__name__}).",
        code="input.file.unreadable",
        next_step="Open it in Word and save it again as .docx.",
        file=name,
    )


def _encrypted(name: str) -> UsageError:
    return UsageError(
        f"{name} is encrypted.",
        code="input.file.encrypted",
        next_step="Save a copy without a password.",
        file=name,
    )


def _old(name: str) -> UsageError:
    return UsageError(
        f"{name} is in the old .doc format, whatever its name says.",
        code="input.file.unreadable",
        next_step="Open it in Word and save it as .docx.",
        file=name,
    )


def _too_large(name: str, what: str) -> UsageError:
    return UsageError(
        f"{name} has {what} is the most.",
        code="input.file.too_large",
        next_step="Divide it, or save its text without the pictures.",
        file=name,
    )
