"""Private chains on the parameters of a torch module."""
