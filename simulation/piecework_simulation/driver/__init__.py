"""Drive a schedule: the processes, their inputs, and the provider that they call."""
