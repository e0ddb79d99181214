"""The declarations of a desk: its subject, tools, rules, facts and limits.

Pure: nothing here needs Django or a database, so a company can test a rule by calling it. The
engine reads the declarations; the public import is `opsconsole.desks`.
"""
