"""The services that piecework stands on, as exact models in memory."""
