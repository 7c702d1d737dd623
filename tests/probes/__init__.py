"""Scenarios that show what the reference plugin does right and what its faults break.

They know the reference plugin, and are for its tests alone.
"""
