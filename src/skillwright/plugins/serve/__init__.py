"""``skillwright serve``: a policy, or an endpoint with skills, behind the protocols of clients."""
