"""A receiver of webhooks: it verifies each signature and ignores repetitions."""
