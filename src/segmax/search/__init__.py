"""Searching: methods, results, explanations, calibration, and the index itself."""
