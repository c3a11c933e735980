"""The services of the example: a simulated Bedrock, and the Word add-in."""
