"""Trains drafters at equal budgets from a grid, and measures what they accept."""
