"""A policy's state as bytes, as a checkpoint holds it, and back."""

from skillwright.policy import Checkpoint
from skillwright.policy.checkpoint import pack, unpack


def held(backend):
    """Return a copy of what a policy is."""
    return pack(Checkpoint(backend.state()))


def facts_of(packed):
    """Return the tree that a copy holds."""
    return dict(unpack(packed).policy)


def load(backend, packed):
    """Go back to a copy."""
    backend.load(facts_of(packed))
