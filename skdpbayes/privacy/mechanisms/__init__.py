"""Privacy profiles and calibrations, mechanism by mechanism."""
