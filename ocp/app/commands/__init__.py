"""The commands of ``ocp``, one file each; ``ocp.app.cli`` lists them. What a command needs is imported when it runs."""
