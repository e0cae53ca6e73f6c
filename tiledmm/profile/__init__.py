"""What limits a kernel, by Nsight Compute: profiles of one product, reduced to figures, tables and sentences.

In: variants and a product. Out: ``Profile`` data, tables, a diagnosis. May import everything below ``profile``.
"""
