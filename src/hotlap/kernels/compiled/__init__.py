"""What compilers make of kernels: sources compiled in fresh processes, binaries read, machine code disassembled where a tool is here."""
