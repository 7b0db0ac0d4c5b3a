"""Private chains on multilayer perceptrons."""
