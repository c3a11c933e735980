"""An LLM batch: an invoice as text goes in, its fields come out."""
