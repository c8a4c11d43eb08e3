#pragma once

#include <string>
#include <vector>

namespace nmt {

// Writes the mean of the models' parameters as float32, rounded once from a compensated float64 sum:
// sum(weight * value) / sum(weight). Without weights all count the same. Configuration and vocabulary are those of all
// files, dropout that of the first; training state is left out. Memory: the files are mapped and read once, a tensor at
// a time. Throws UserError where the files differ in anything but their values and dropout, naming the first
// difference, and for parameters that hold NaN or infinite values.
void average_models(const std::vector<std::string>& files, const std::vector<double>& weights,
                    const std::string& output);

}  // namespace nmt
