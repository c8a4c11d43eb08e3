#pragma once

// Included before any header of Highway: the instruction sets the kernels are built for. Without compiler flags x86-64
// means SSE2; the kernels start at AVX2 (2013) instead, so that neither scalar code nor four targets are compiled.
#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3))

#include <hwy/targets.h>
