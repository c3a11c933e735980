"""The parts of Piecework alone: around any async function, without a worker."""
