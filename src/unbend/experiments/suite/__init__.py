"""Two fixed lists of problems, and all methods on them: `unbend reproduce suite`."""
