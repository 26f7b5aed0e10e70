"""All versions of a bank in one file, with what happened to it and why."""
