"""Pieces that the scripted models of several worlds share."""
