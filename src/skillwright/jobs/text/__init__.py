"""The training of a skill document, and an evaluation of one."""
