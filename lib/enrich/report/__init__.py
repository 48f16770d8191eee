"""Report the runs so far, from the runs table alone, without a JVM: numbers and names, never a cell value."""

from enrich.report.document import build_report, read_report
from enrich.report.models import Report, build_schema
from enrich.report.page import write_latest

__all__ = ["Report", "build_report", "build_schema", "read_report", "write_latest"]
