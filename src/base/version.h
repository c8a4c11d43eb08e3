#pragma once

#include <string>
#include <string_view>

namespace nmt {

extern const std::string_view kVersion;  // the content of the file VERSION
extern const std::string_view kCommit;   // commit of the source tree, "unknown" outside git

// What --version prints: version, commit, compiler, libraries, instruction sets of this CPU that nmt has kernels for.
std::string version_text(std::string_view tool);

}  // namespace nmt
