"""What runs beside the example: a stand-in for Bedrock, and the Word add-in."""
