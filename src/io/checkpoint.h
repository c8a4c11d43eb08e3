#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nmt {

// Files PREFIX<number>SUFFIX, such as model.iter100.safetensors: all that differ in the number only.
struct NumberedFile {
  int64_t number;
  std::string path;
};

// Those there are, by rising number. The prefix has the folder.
std::vector<NumberedFile> find_numbered(const std::string& prefix, const std::string& suffix);

// Removes all but the `keep` (at least 1) files of highest number; returns what it removed. If none of those that stay
// is a whole safetensors file (a disk lost their data), the newest whole one stays as well.
std::vector<std::string> remove_old_checkpoints(const std::string& prefix, const std::string& suffix, int keep);

// The last `count` checkpoints PREFIX.iterN.safetensors or PREFIX.epochN.safetensors beside the model
// PREFIX.safetensors, by rising number. kind is "iter", "epoch", or empty where only one kind exists. Throws UserError.
std::vector<std::string> last_checkpoints(const std::string& model, const std::string& kind, int count);

}  // namespace nmt
