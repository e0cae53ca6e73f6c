"""What limits a kernel, by Nsight Compute: run on one product, and reduced to numbers and words."""
