"""Generated scenarios: drawn buildings, families, and the fires that accept them (generator 1.0)."""
