"""Scenarios that misbehave as a plugin might, for the tests of containment."""
