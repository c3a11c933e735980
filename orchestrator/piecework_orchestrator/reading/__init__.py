"""Read jobs, chunks and events from the record, for people and programs."""
