#!/usr/bin/env python
"""Run opsconsole's commands; `python manage.py help` lists them."""

from opsconsole.__main__ import main

if __name__ == "__main__":
    main()
