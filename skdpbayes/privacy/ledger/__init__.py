"""An account of releases that processes share."""
