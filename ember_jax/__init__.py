"""The compiled, batched twin of `ember_ref`: the same nouns as arrays, on any JAX backend."""
