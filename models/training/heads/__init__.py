"""Learned drafter heads for the embedded target: training, measurement and export."""
