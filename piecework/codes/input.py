"""Codes of the input that a user hands to `submit`: nothing is submitted by halves."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT
_DRY_RUN: Final = "then check with `piecework submit … --dry-run`."

ROWS: Final = (
    Code(
        "input.chunks.too_many",
        _P,
        "The input holds more chunks than one job may have.",
        "Submit it in parts, or make chunks larger.",
    ),
    Code(
        "input.directory.empty",
        _P,
        "The directory has no file of a kind that can be read.",
        "Put .md, .txt, .docx or .pdf files into it, or name one file.",
    ),
    Code(
        "input.file.empty",
        _P,
        "The file has no text in it.",
        "Check that it is the right file; a scanned PDF needs text recognition first.",
    ),
    Code(
        "input.file.encrypted",
        _P,
        "The file is encrypted.",
        "Save it without a password and submit that file.",
    ),
    Code(
        "input.file.too_large",
        _P,
        "The file is larger than the limit for one document.",
        "Cut it into several files, or submit a JSONL manifest, which is streamed.",
    ),
    Code(
        "input.file.unreadable",
        _P,
        "The file cannot be opened, or its content is damaged.",
        "Check its permissions and that its own program opens it.",
    ),
    Code(
        "input.file.unsupported",
        _P,
        "There is no reader for this kind of file.",
        "Save it as .md, .txt, .docx or .pdf, or submit a JSONL manifest.",
    ),
    Code(
        "input.label.failed",
        _P,
        "The pipeline's `label` raised an error, or returned no text.",
        "Correct it; it must return a short text for any payload.",
    ),
    Code(
        "input.manifest.empty",
        _P,
        "The manifest has no line.",
        "Write one JSON object a line, one line a chunk.",
    ),
    Code(
        "input.manifest.invalid_line",
        _P,
        "A line of the manifest is not a JSON object.",
        f"Correct the line that the message names, {_DRY_RUN}",
    ),
    Code(
        "input.manifest.too_long_line",
        _P,
        "A line of the manifest is longer than one payload may be.",
        "Put large content into S3 and its address into the line.",
    ),
    Code(
        "input.payload.invalid",
        _P,
        "A chunk does not fit the pipeline's payload type.",
        f"Correct the chunk that the message names, {_DRY_RUN}",
    ),
    Code(
        "input.payload.too_large",
        _P,
        "A chunk's payload is larger than the limit.",
        "Split finer, or hand over a reference in place of the data.",
    ),
    Code(
        "input.s3.denied",
        _P,
        "S3 denies reading the manifest.",
        "Allow `s3:GetObject` on it, or use other credentials.",
    ),
    Code(
        "input.s3.unreachable",
        _P,
        "The `s3://` input cannot be read.",
        "Check bucket, key and permissions, then `piecework doctor`.",
    ),
    Code(
        "input.source.not_found",
        _P,
        "There is no file, directory or object under the name given.",
        "Check the path; `-` reads a manifest from standard input.",
    ),
    Code(
        "input.split.failed",
        _P,
        "The pipeline's `split` raised an exception.",
        f"Correct `split` for this document, {_DRY_RUN}",
    ),
    Code(
        "input.split.missing",
        _P,
        "The pipeline has no `split`, so it takes manifests only.",
        "Submit a .jsonl manifest, or give the pipeline a `split`.",
    ),
    Code(
        "input.split.none",
        _P,
        "The pipeline's `split` made no chunk of this input.",
        f"Check that the document has what `split` looks for, {_DRY_RUN}",
    ),
)
