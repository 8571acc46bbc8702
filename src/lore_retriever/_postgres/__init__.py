"""What `embedded` is made of: the binaries, a cluster, its settings and its locks."""
