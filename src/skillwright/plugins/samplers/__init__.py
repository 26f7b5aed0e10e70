"""Engines that sample for a policy: vLLM and SGLang."""
