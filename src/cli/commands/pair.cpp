// foresay pair: whether a drafter fits a target, why not, and the flags to start with. Loads no weights.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "gguf/gguf.h"
#include "spec/pair.h"

namespace foresay::cli {
namespace {

void print_text(const spec::PairReport& report, const std::string& target, const std::string& draft) {
    fmt::print("target   {}\ndrafter  {}\ntype     {}\n", target, draft, report.type);
    const spec::VocabDifference& v = report.vocab;
    if (v.n_target > 0) {
        fmt::print("tokens   {} in the target, {} in the drafter, {} texts differ\n", v.n_target, v.n_draft,
                   v.n_different);
    }
    for (const std::string& note : report.notes) {
        fmt::print("note     {}\n", note);
    }
    for (const std::string& problem : report.problems) {
        fmt::print("problem  {}\n", problem);
    }
    if (!report.fits()) {
        fmt::print("They don't fit.\n");
        return;
    }
    fmt::print("They fit. To start:\n  foresay serve -m {}", target);
    if (draft != target) {
        fmt::print(" --spec-draft-model {}", draft);
    }
    for (const std::string& flag : report.flags) {
        fmt::print(" {}", flag);
    }
    fmt::print("\n");
}

void print_json(const spec::PairReport& report, const std::string& target, const std::string& draft) {
    nlohmann::ordered_json j;
    j["target"] = target;
    j["drafter"] = draft;
    j["fits"] = report.fits();
    j["type"] = report.type;
    j["problems"] = report.problems;
    j["notes"] = report.notes;
    j["flags"] = report.flags;
    j["vocab"] = {{"n_target", report.vocab.n_target},
                  {"n_draft", report.vocab.n_draft},
                  {"n_different", report.vocab.n_different},
                  {"first", nlohmann::ordered_json::array()}};
    for (const auto& entry : report.vocab.first) {
        j["vocab"]["first"].push_back({{"id", entry.id}, {"target", entry.target}, {"drafter", entry.draft}});
    }
    // Token texts may be any bytes.
    fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

int pair_command(const Options& options) {
    const auto& files = options.local.files;
    const std::string& target_path = files.front();
    const std::string& draft_path = files.back();
    auto target = gguf::File::open(target_path);
    if (!target) {
        fmt::print(stderr, "{}\n", target.error().to_string());
        return 1;
    }
    auto draft = files.size() == 1 ? target : gguf::File::open(draft_path);
    if (!draft) {
        fmt::print(stderr, "{}\n", draft.error().to_string());
        return 1;
    }
    const auto report = spec::check_pair(**target, **draft, files.size() == 1 ? "draft-mtp" : "");
    if (options.local.json) {
        print_json(report, target_path, draft_path);
    } else {
        print_text(report, target_path, draft_path);
    }
    return report.fits() ? 0 : 2;
}

}  // namespace foresay::cli
