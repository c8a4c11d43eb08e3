#include <fmt/format.h>

#include "base/files.h"
#include "config/app.h"
#include "train/dry_run.h"
#include "train/tasks.h"
#include "train/trainer.h"

int main(int argc, char** argv) {
  nmt::App app("nmt-train", "Train a translation model");
  nmt::TrainOptions options;
  options.declare(app.options());
  std::string given;
  app.prepare([&] {
    if (options.list_devices) return;
    given = app.options().command_line();
    options.settle(app.options());
    options.validate(nmt::OptionFiles(app.options()));
  });
  std::string footer =
      "Example:\n"
      "  nmt-train --task transformer-base --train-sets train.en train.de --vocabs vocab.spm \\\n"
      "      --valid-sets dev.en dev.de --valid-metrics cross-entropy bleu --model model.safetensors\n\n"
      "How long and how often: 5000 or 5Ku updates, 10e epochs, 1Gt target tokens (with </s>), 90s, 30min or 2h.\n\n"
      "Tasks:";
  for (const auto& task : nmt::tasks()) footer += fmt::format("\n  {:<24} {}", task.name, task.help);
  app.footer(footer);
  app.run([&] {
    if (options.list_devices) {
      nmt::print("{}", nmt::device_list());
      return;
    }
    nmt::advise_on_memory("smaller --mini-batch-words with a larger --optimizer-delay need less", [&] {
      if (options.dry_run)
        nmt::dry_run(options);
      else if (options.dump_plan)
        nmt::dump_plan(options);
      else
        nmt::Trainer(options, app.options().dump(), given).run();
    });
  });
  return app.main(argc, argv);
}
