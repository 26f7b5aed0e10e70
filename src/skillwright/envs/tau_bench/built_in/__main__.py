"""``python -m skillwright.envs.tau_bench.built_in`` writes the files of the built-in store."""

from skillwright.envs.tau_bench.built_in.generate import write_store

if __name__ == "__main__":
    write_store()
