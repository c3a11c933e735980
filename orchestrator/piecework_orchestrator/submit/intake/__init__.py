"""Turn the source of a submission into a stream of chunk inputs."""

from piecework_orchestrator.submit.intake.chunk import ChunkInput
from piecework_orchestrator.submit.intake.json_lines import S3Reader
from piecework_orchestrator.submit.intake.limits import IntakeLimits
from piecework_orchestrator.submit.intake.source import chunk_inputs

__all__ = ["ChunkInput", "IntakeLimits", "S3Reader", "chunk_inputs"]
