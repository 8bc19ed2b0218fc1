"""The application: files in, command line, run folders and reports out. The only package that reads files, prints or draws."""
