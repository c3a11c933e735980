"""What the commands print: one module for each noun."""
