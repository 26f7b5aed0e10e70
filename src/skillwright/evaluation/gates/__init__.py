"""Gates judge a candidate by paired draws on held-out tasks. One class each; packages can add some.

``evaluation.gate.kind`` of a configuration chooses one; `base.Gate` says what a gate is.
"""
