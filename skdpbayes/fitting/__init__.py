"""The hallway that every fit walks through: read, plan, reserve, touch, keep."""
