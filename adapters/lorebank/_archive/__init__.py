"""Files of memories: archives of lorebank's own, and what other libraries keep."""
