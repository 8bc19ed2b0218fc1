"""What bounds alone tell about a problem, within milliseconds, before anything is transcribed or solved."""

from ocp.reach.findings import Finding, first_findings

__all__ = ["Finding", "first_findings"]
