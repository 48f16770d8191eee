"""Reports of the runs so far, from the runs table alone: a document, and from it a page, a text and JSON. No JVM.

Numbers, names and versions, never a cell value. `enrich.report.text` alone shows keys, to a terminal.
"""

from enrich.report.document import add_reasons, build_report, read_report
from enrich.report.models import Report, build_schema
from enrich.report.page import write_latest

__all__ = ["Report", "add_reasons", "build_report", "build_schema", "read_report", "write_latest"]
