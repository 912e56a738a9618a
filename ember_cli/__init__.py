"""The `ember` command: it puts the packages together and is imported by none of them."""
