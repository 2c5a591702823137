"""What works on this machine, what does not, and what to do."""
