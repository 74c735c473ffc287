"""Benchmarks that compare contestants in one run and record the machine."""
