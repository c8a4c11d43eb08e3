#pragma once

// Before a function that kernels on a device call, too: one text for every backend.
#ifdef __CUDACC__
#define NMT_ON_DEVICE_TOO __host__ __device__
#else
#define NMT_ON_DEVICE_TOO
#endif
