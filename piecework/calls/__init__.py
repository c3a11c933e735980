"""Make the paid calls of a stage: journalled, retried, limited, and counted."""
