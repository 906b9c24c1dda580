"""What users write and what we read: typed objects, quantities, defaults, validation, CRDs."""
