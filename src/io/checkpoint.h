#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nmt {

// Files that differ in a number only: `model.iter*.safetensors` stands for model.iter100.safetensors and its like.
struct NumberedFile {
  int64_t number;
  std::string path;
};

// The files whose names are the pattern with digits, and digits only, in place of its one `*`; by rising number.
// The `*` stands in the file name, not in a folder.
std::vector<NumberedFile> find_numbered(const std::string& pattern);

// Removes all but the `keep` (at least 1) files of highest number; returns what it removed. If none of those that stay
// is a whole safetensors file (a disk lost their data), the newest whole one stays as well.
std::vector<std::string> remove_old_checkpoints(const std::string& pattern, int keep);

// The last `count` checkpoints PREFIX.iterN.safetensors or PREFIX.epochN.safetensors beside the model
// PREFIX.safetensors, by rising number. kind is "iter", "epoch", or empty where only one kind exists. Throws UserError.
std::vector<std::string> last_checkpoints(const std::string& model, const std::string& kind, int count);

}  // namespace nmt
