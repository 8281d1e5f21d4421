"""The server around the rules: an event loop owns every connection, so none can hold up another."""
