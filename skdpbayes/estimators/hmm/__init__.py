"""Hidden Markov models of event logs."""
