"""Sparse vectors: CSR rows, quantized weights, static pruning, and what readers and encoders hand on."""
