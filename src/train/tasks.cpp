#include "train/tasks.h"

namespace nmt {

const std::vector<Task>& tasks() {
  using Settings = std::vector<std::pair<std::string, std::string>>;
  static const std::vector<Task> all = [] {
    // Section 5 and Table 3 of "Attention Is All You Need": the base model's settings are the options' defaults.
    const auto with = [](Settings more, const char* after = "100Ku") {
      Settings settings = {{"after", after}, {"save-freq", "10min"}};
      settings.insert(settings.end(), more.begin(), more.end());
      return settings;
    };
    std::vector<Task> list;
    list.push_back({"transformer-base", "the base model: 100,000 updates of 25,000 + 25,000 tokens", with({}), 12});
    const Settings big = {{"dim-emb", "1024"},
                          {"transformer-dim-ffn", "4096"},
                          {"transformer-heads", "16"},
                          {"transformer-dropout", "0.3"},
                          {"keep-last", "20"}};  // section 6.1 averages as many
    list.push_back({"transformer-big", "the big model: 300,000 updates", with(big, "300Ku"), 84});
    const auto row = [&](const char* name, const char* help, Settings more) {
      list.push_back({name, help, with(more)});
    };
    const auto heads = [&](const char* name, const char* h, const char* d) {
      row(name, "Table 3 (A)", {{"transformer-heads", h}, {"transformer-dim-key", d}, {"transformer-dim-value", d}});
    };
    heads("table3-A-1head", "1", "512");
    heads("table3-A-4heads", "4", "128");
    heads("table3-A-16heads", "16", "32");
    heads("table3-A-32heads", "32", "16");
    row("table3-B-dk16", "Table 3 (B)", {{"transformer-dim-key", "16"}});
    row("table3-B-dk32", "Table 3 (B)", {{"transformer-dim-key", "32"}});
    row("table3-C-2layers", "Table 3 (C)", {{"enc-depth", "2"}, {"dec-depth", "2"}});
    row("table3-C-4layers", "Table 3 (C)", {{"enc-depth", "4"}, {"dec-depth", "4"}});
    row("table3-C-8layers", "Table 3 (C)", {{"enc-depth", "8"}, {"dec-depth", "8"}});
    row("table3-C-d256", "Table 3 (C)",
        {{"dim-emb", "256"}, {"transformer-dim-key", "32"}, {"transformer-dim-value", "32"}});
    row("table3-C-d1024", "Table 3 (C)",
        {{"dim-emb", "1024"}, {"transformer-dim-key", "128"}, {"transformer-dim-value", "128"}});
    row("table3-C-ff1024", "Table 3 (C)", {{"transformer-dim-ffn", "1024"}});
    row("table3-C-ff4096", "Table 3 (C)", {{"transformer-dim-ffn", "4096"}});
    row("table3-D-dropout0", "Table 3 (D)", {{"transformer-dropout", "0"}});
    row("table3-D-dropout0.2", "Table 3 (D)", {{"transformer-dropout", "0.2"}});
    row("table3-D-smoothing0", "Table 3 (D)", {{"label-smoothing", "0"}});
    row("table3-D-smoothing0.2", "Table 3 (D)", {{"label-smoothing", "0.2"}});
    row("table3-E-positions", "Table 3 (E)", {{"transformer-train-position-embeddings", "true"}});
    // Section 6.3; a target vocabulary of trees' tokens has little in common with one of words. What the paper chose on
    // its development set and does not say is dropout.
    const auto parser = [&](const char* name, const char* help, Settings settings) {
      const Settings common = {{"target-trees", "true"},
                               {"tied-embeddings-all", "false"},
                               {"enc-depth", "4"},
                               {"dec-depth", "4"},
                               {"max-length", "512"}};
      settings.insert(settings.end(), common.begin(), common.end());
      list.push_back({name, help, settings});
    };
    const auto large = [&](const char* dropout) {
      return with({{"dim-emb", "1024"}, {"transformer-dropout", dropout}, {"transformer-dropout-attention", dropout}});
    };
    parser("parser-wsj", "Table 4: 4 + 4 layers of 1024, a treebank of 40,000 sentences, a vocabulary of 16,000",
           large("0.2"));
    parser("parser-semi", "Table 4: the same with millions of sentences parsed by machine, a vocabulary of 32,000",
           large("0.1"));
    parser("parser-tiny", "a small parser for a treebank of 20,000 sentences and two cores: 4 + 4 layers of 256",
           {{"dim-emb", "256"},
            {"transformer-dim-ffn", "1024"},
            {"transformer-heads", "4"},
            {"transformer-norm", "pre"},
            {"transformer-dropout", "0.1"},
            {"transformer-dropout-attention", "0.1"},
            {"learn-rate", "0.0015"},
            {"lr-warmup", "1000"},
            {"mini-batch-words", "2000"},
            {"after", "60e"},
            {"save-freq", "1e"},
            {"keep-last", "10"}});
    list.push_back({"transformer-tiny",
                    "a small model for a few ten thousand pairs: 4 + 4 layers of 128, dropout 0.3 (Wu et al. 2021)",
                    {{"dim-emb", "128"},
                     {"transformer-dim-ffn", "256"},
                     {"transformer-heads", "4"},
                     {"enc-depth", "4"},
                     {"dec-depth", "4"},
                     {"transformer-dropout", "0.3"},
                     {"learn-rate", "0.005"},
                     {"lr-warmup", "2000"},
                     {"mini-batch-words", "8192"},
                     {"after", "8000u"},
                     {"save-freq", "1e"},
                     {"keep-last", "10"}}});
    return list;
  }();
  return all;
}

}  // namespace nmt
