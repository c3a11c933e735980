"""AWS for the bench: the simulator's models of its services, behind HTTP.

The models answer as AWS does (`verification/conformance` checks them), in true time and
without faults. A transaction holds its items for some milliseconds. The server is one
lean process, so the bench measures its clients.
"""
