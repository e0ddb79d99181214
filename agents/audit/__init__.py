"""The record: chains of events, seals over them, and the proof that both are what was written.

`chain`, `chain_faults`, `erasable_texts` and `seals` decide and know no Django; the others read
and write rows and files.
"""
