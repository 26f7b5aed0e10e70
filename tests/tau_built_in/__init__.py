"""Makes the small store of tau_bench that comes with the package; its tests prove every byte."""
