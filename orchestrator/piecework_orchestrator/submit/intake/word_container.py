"""Check the container of a .docx before anything is unpacked.

A zip of a few kilobytes can unpack to gigabytes, and Word's encrypted files are not
zips. The sizes come from the zip's own directory. If they are wrong, reading stops at
the stated size and the checksum fails.
"""

from __future__ import annotations

import io
import re
import zipfile

from piecework.errors import UsageError
from piecework_orchestrator.submit.intake.limits import IntakeLimits

# OLE: the container of old .doc files, and of encrypted .docx files.
OLE = bytes.fromhex("D0CF11E0A1B11AE1")
ENCRYPTED_STREAM = "EncryptedPackage".encode("utf-16-le")

# Signature of a member in the directory of a zip.
MEMBER = b"PK\x01\x02"

# The first bytes of pictures, none of which begins XML: PNG, JPEG, GIF, TIFF, BMP, EMF,
# WMF. A name or a content type tells nothing, because the sender chooses both.
PICTURES = (
    *(b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*", b"BM"),
    *(b"\1\0\0\0", b"\xd7\xcd\xc6\x9a"),
)

FLAG_ENCRYPTED = 0x1

# The two forms of the standard differ in the addresses of their namespaces.
STRICT, TRANSITIONAL = (
    b"http://purl.oclc.org/ooxml/",
    b"http://schemas.openxmlformats.org/",
)
XML = (".rels", ".xml")


def check_container(data: bytes, name: str, limits: IntakeLimits) -> None:
    """Refuse a file that must not be unpacked.

    Raises:
        UsageError: `input.file.encrypted`, `input.file.unreadable`,
            `input.file.too_large`.
    """
    if data.startswith(OLE):
        raise encrypted_error(name) if ENCRYPTED_STREAM in data else _old(name)
    # Count in the raw bytes: reading the directory takes memory for each member.
    members = data.count(MEMBER)
    if members > limits.docx_members:
        raise too_large_error(name, f"{members:,} members", limits.docx_members)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found = archive.infolist()
            if any(member.flag_bits & FLAG_ENCRYPTED for member in found):
                raise encrypted_error(name)
            pictures = sum(m.file_size for m in found if _is_picture(archive, m))
    except UsageError:
        raise
    except Exception as error:
        # The input is untrusted, so the library may raise any exception.
        raise unreadable_error(name, error) from error
    unpacked = sum(member.file_size for member in found)
    _check_sizes(unpacked, unpacked - pictures, len(data), name, limits)


def transitional(data: bytes, name: str) -> bytes:
    """Return a "Strict Open XML Document" with the namespaces of a usual one.

    The other differences are units and names of alignments, which are not read. Any
    other document is returned as it is. Check the container first.

    Raises:
        UsageError: `input.file.unreadable`.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if STRICT not in archive.read("_rels/.rels"):
                return data
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as copy:
                for member in archive.infolist():
                    content = archive.read(member)
                    if member.filename.endswith(XML):
                        content = STRICT_NAME.sub(_usual_name, content)
                    copy.writestr(member.filename, content)
            return packed.getvalue()
    except Exception as error:
        # The input is untrusted, so the library may raise any exception.
        raise unreadable_error(name, error) from error


#: Such as `http://purl.oclc.org/ooxml/wordprocessingml/main`.
STRICT_NAME = re.compile(re.escape(STRICT) + rb"(\w+)/(\w+)")


def _usual_name(strict: re.Match[bytes]) -> bytes:
    """Return the usual name of a namespace: it has the year after the first part."""
    return TRANSITIONAL + strict[1] + b"/2006/" + strict[2]


def _is_picture(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    with archive.open(member) as content:
        return content.read(4).startswith(PICTURES)


def _check_sizes(
    unpacked: int, xml: int, packed: int, name: str, limits: IntakeLimits
) -> None:
    if unpacked > limits.docx_unpacked_bytes:
        size = f"{unpacked:,} bytes unpacked"
        raise too_large_error(name, size, limits.docx_unpacked_bytes)
    if xml > limits.docx_xml_bytes:
        size = f"{xml:,} bytes of XML unpacked"
        raise too_large_error(name, size, limits.docx_xml_bytes)
    if unpacked > limits.docx_ratio * packed:
        size = f"a compression ratio of {unpacked // packed:,}"
        raise too_large_error(name, size, limits.docx_ratio)


def unreadable_error(name: str, error: Exception) -> UsageError:
    """Return the error for a file that cannot be opened."""
    message = f"{name} is not a complete .docx file ({type(error).__name__})."
    step = "Open it in Word and save it again as .docx."
    return UsageError(message, code="input.file.unreadable", next_step=step, file=name)


def encrypted_error(name: str) -> UsageError:
    """Return the error for a file that needs a password."""
    message = f"{name} is encrypted."
    step = "Save a copy without a password."
    return UsageError(message, code="input.file.encrypted", next_step=step, file=name)


def _old(name: str) -> UsageError:
    message = f"{name} is in the old .doc format, although its name ends in .docx."
    step = "Open it in Word and save it as .docx."
    return UsageError(message, code="input.file.unreadable", next_step=step, file=name)


def too_large_error(name: str, size: str, limit: int) -> UsageError:
    """Return the error for a file that exceeds a limit."""
    message = f"{name} has {size}; the limit is {limit:,}."
    step = "Divide it, or save its text without the pictures."
    return UsageError(message, code="input.file.too_large", next_step=step, file=name)
