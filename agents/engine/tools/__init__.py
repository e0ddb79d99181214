"""Call tools: admit a call, execute it once, settle its outcome."""
