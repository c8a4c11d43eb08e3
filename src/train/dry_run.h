#pragma once

#include "train/train_options.h"

namespace nmt {

// Print what a training would take: parameters, memory and time. Nothing is written. Throws as TrainingSetup does.
void dry_run(const TrainOptions& options);
// Prints the plan of the first update, measured.
void dump_plan(const TrainOptions& options);

}  // namespace nmt
