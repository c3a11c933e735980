"""The simulated world: event loop, network, processes, and faults."""
