#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "config/app.h"
#include "config/option_files.h"
#include "io/average.h"
#include "io/training_files.h"

namespace {

struct AverageOptions {
  std::string output, model, kind;
  std::vector<std::string> files;
  std::vector<double> weights;
  int last = 0;

  void declare(nmt::Options& options) {
    options.add("files", files, "Models or checkpoints to average").positional();
    options.add("output", output, "Model file to write").short_name('o').required();
    options.add("last", last, "Average the last N checkpoints of --model instead of files; 0: the files").range(0, 1e6);
    options
        .add("model", model,
             "With --last: the model PREFIX.safetensors, whose checkpoints are"
             " PREFIX.iterN.safetensors or PREFIX.epochN.safetensors")
        .short_name('m');
    options.add("kind", kind, "With --last: which checkpoints, where both kinds exist")
        .choices({nmt::TrainingFiles::kUpdate, nmt::TrainingFiles::kEpoch});
    options.add("weights", weights,
                "One positive number for each file, in the order of the files"
                " (--last: oldest first); after the files on the command line");
  }

  void validate() const {
    if (last == 0) {
      nmt::require(model.empty() && kind.empty(), "--model and --kind go with --last N");
      nmt::require(!files.empty(), "no models to average: name files, or give --last N --model PREFIX.safetensors");
    } else {
      nmt::require(files.empty(), "give either files or --last, not both");
      nmt::require(!model.empty(), "--last needs --model PREFIX.safetensors");
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  nmt::App app("nmt-average", "Averages the parameters of models or checkpoints");
  AverageOptions options;
  options.declare(app.options());
  app.footer(
      "Examples:\n"
      "  nmt-average --output avg.safetensors model.iter90000.safetensors model.iter96000.safetensors\n"
      "  nmt-average --output avg.safetensors --last 5 --model model.safetensors\n"
      "  nmt-average --output avg.safetensors a.safetensors b.safetensors --weights 1 3");
  app.run([&] {
    options.validate();
    auto files = options.files;
    if (options.last > 0) {
      const nmt::TrainingFiles training(options.model);
      files = training.last(options.kind, options.last);
      training.refuse_own("output", options.output);
    }
    nmt::OptionFiles(app.options()).writes("output", options.output);
    for (const auto& file : files)
      nmt::require(!nmt::same_file(file, options.output),
                   "--output {} is one of the files to average: what is written needs a file of its own", file);
    nmt::average_models(files, options.weights, options.output);
    for (const auto& file : files) nmt::log::info("averaged {}", file);
    nmt::log::info("wrote the mean of {} to {}", files.size() == 1 ? "1 file" : fmt::format("{} files", files.size()),
                   nmt::output_name(options.output));
  });
  return app.main(argc, argv);
}
