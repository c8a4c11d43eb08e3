# . bf16.bash: $bf16 is bf16 where the processor multiplies it, else empty.
bf16=
if grep -q avx512 /proc/cpuinfo && [ "${ONEDNN_MAX_CPU_ISA:-}" != AVX2 ]; then bf16=bf16; fi
