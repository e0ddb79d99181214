"""What a demo shows: fourteen days of history and requests that wait."""
