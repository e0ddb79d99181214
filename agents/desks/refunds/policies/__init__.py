"""The rules of the desk; each is named by its file: ``refunds.auto_limit``."""
