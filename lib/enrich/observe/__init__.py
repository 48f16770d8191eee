"""Tell those who watch runs from outside: OpenLineage, Prometheus, and who wants to be told about failures.

Imported only where ``conf/`` names one of them. Nothing here can fail a run, or hold it up for longer than its
``timeout``; what could not be delivered is said once on stderr. Names, numbers and versions, never a cell value.
"""
