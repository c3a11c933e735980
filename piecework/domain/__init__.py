"""The vocabulary of the protocol: pure types and decisions that know no AWS."""
