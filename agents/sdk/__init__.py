"""What a desk is written with: its subject, tools, rules, facts and limits, as declarations.

Pure: nothing here needs Django or a database, so a company tests a rule by calling it. The engine
reads what is declared; the public import is `opsconsole.desks`.
"""
