"""Ask people: who may decide, how an action is held, what an approval requires."""
