"""What compiled kernels hold, read from their files: cubin, HSACO, PTX, SPIR-V and disassembly. No tool, no device."""
