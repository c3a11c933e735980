"""The stores: every state change is one named, conditional write of this package."""
