"""Stop jobs by each cause and by pairs of causes, and explain them; `make drill`."""
