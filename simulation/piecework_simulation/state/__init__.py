"""The state file of a run: what the models of AWS hold, in one file of SQLite."""
