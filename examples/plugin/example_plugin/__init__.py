"""A gate and a model backend for Skillwright."""
