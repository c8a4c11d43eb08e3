#pragma once

namespace nmt::cuda {

// Whether this program's kernels were compiled for the current device, or for an older one from which its driver can
// make them.
bool has_code();

}  // namespace nmt::cuda
