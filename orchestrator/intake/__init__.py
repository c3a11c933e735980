"""Turn the source of a submission into a stream of chunk inputs."""

from orchestrator.intake.chunk import ChunkInput
from orchestrator.intake.limits import Limits
from orchestrator.intake.s3 import S3Reader
from orchestrator.intake.source import chunk_inputs

__all__ = ["ChunkInput", "Limits", "S3Reader", "chunk_inputs"]
