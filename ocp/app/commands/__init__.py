"""The commands of ``ocp``, one file each; ``ocp.app.cli`` lists them. Commands; each imports its needs when it runs."""
