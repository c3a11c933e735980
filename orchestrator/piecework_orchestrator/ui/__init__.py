"""The web page of operators: see a job, see why it is stuck, and mend it.

`app` serves the pages, `pages` reads what they show, `actions` changes jobs, `access`
decides which requests are answered.
"""
