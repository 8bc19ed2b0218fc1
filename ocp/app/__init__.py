"""The application: files in, command line, run folders and reports out. The only place that reads files, prints or draws."""
