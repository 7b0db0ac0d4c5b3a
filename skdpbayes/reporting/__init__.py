"""What is claimed for a whole pipeline, and pages for those who sign for it."""

from skdpbayes.fitting.pipelines import check_private, privacy_of, split_budget
from skdpbayes.reporting.report import report
from skdpbayes.reporting.summary import summary

__all__ = ["check_private", "privacy_of", "report", "split_budget", "summary"]
