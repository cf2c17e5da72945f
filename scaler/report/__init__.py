"""Reports that open in any browser, a single file each: text, tables and plots."""
