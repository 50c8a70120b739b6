"""`make accuracy`: every scenario over fresh seeds, graded against its ground truth; figures, document and plots."""
