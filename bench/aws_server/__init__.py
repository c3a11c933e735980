"""AWS for the bench: the simulator's models of its services, behind HTTP.

The models answer as AWS does (`verification/conformance` holds them to it), in true time and
without faults. One lean process, so that what is measured is its clients.
"""
