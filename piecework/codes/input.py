"""Codes of the input of `submit`: an input is submitted as a whole or not at all."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT
_DRY_RUN: Final = "then check with `piecework submit … --dry-run`."

ROWS: Final = (
    Code(
        "input.chunks.too_many",
        _P,
        "The input has more chunks than one job may have.",
        "Submit it in parts, or make the chunks larger.",
    ),
    Code(
        "input.directory.empty",
        _P,
        "The directory has no file of a supported kind.",
        "Put .md, .txt, .docx or .pdf files into it, or name one file.",
    ),
    Code(
        "input.file.empty",
        _P,
        "The file has no text.",
        "Check that it is the right file. A scanned PDF needs text recognition first.",
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
        "Split it into several files, or submit a JSONL manifest, which is streamed.",
    ),
    Code(
        "input.file.unreadable",
        _P,
        "The file cannot be opened, or its content is damaged.",
        "Check its permissions, and check that its own program opens it.",
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
        "The pipeline's `label` raised an error, or did not return a text.",
        "Correct it; it must return a short text for any payload.",
    ),
    Code(
        "input.manifest.empty",
        _P,
        "The manifest has no lines.",
        "Write one JSON object in each line, one line for each chunk.",
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
        "A chunk does not match the pipeline's payload type.",
        f"Correct the chunk that the message names, {_DRY_RUN}",
    ),
    Code(
        "input.payload.too_large",
        _P,
        "A chunk's payload is larger than the limit.",
        "Make smaller chunks, or pass a reference in place of the data.",
    ),
    Code(
        "input.s3.denied",
        _P,
        "S3 denied access to the manifest.",
        "Allow `s3:GetObject` on it, or use other credentials.",
    ),
    Code(
        "input.s3.unreachable",
        _P,
        "The `s3://` input cannot be read.",
        "Check bucket, key and permissions, then run `piecework doctor`.",
    ),
    Code(
        "input.source.not_found",
        _P,
        "The file, directory or object does not exist.",
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
        "The pipeline has no `split`, so it accepts only manifests.",
        "Submit a .jsonl manifest, or add a `split` to the pipeline.",
    ),
    Code(
        "input.split.none",
        _P,
        "The pipeline's `split` returned no chunks for this input.",
        f"Check that the document contains what `split` expects, {_DRY_RUN}",
    ),
)
