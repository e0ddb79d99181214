"""What every page uses: who may see it, how values are written, how forms are read and refused."""
