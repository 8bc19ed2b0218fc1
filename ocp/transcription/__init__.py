"""Transcription of problems into nonlinear programs."""
