"""Banks as files that others read and write: in, out, and one skill as JSON."""
