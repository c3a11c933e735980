"""Try Piecework in a real AWS account within a budget, and remove everything again."""
