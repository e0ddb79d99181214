"""The demo's contents: fourteen days of history and open requests."""
