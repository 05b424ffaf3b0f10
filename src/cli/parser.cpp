#include "cli/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "chat/chat.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/help.h"

namespace foresay::cli {
namespace {

struct CommandName {
    Command command;
    std::string_view name;
};

constexpr CommandName kCommands[] = {{kServe, "serve"},       {kRun, "run"},   {kBench, "bench"}, {kInspect, "inspect"},
                                     {kTokenize, "tokenize"}, {kPair, "pair"}, {kTune, "tune"},   {kDoctor, "doctor"}};

/// One use of a flag. source: as the user wrote it, for messages.
struct Use {
    FlagMatch match;
    std::string value;
    std::string source;
    bool from_environment = false;
};

Error failure(const Use& use, std::string_view reason, Code code = Code::kInvalidArgument) {
    return error(code, fmt::format("error while handling {} \"{}\": {}",
                                   use.from_environment ? "environment variable" : "argument", use.source, reason));
}

/// Applies uses in order and collects what the user should know.
class Applier {
  public:
    explicit Applier(CommandLine* line) : line_(line) {}

    Status apply(const Use& use);

  private:
    void notice(log::Level level, std::string text) { line_->notices.push_back({level, std::move(text)}); }

    Status apply_renamed(const Use& use);

    CommandLine* line_;
    std::set<const Flag*> seen_;
    std::set<std::string>
        told_;  ///< reasons already given for flags without effect: -ngl and --spec-draft-ngl share one
};

Status Applier::apply(const Use& use) {
    const Flag& flag = *use.match.flag;
    if ((flag.commands & line_->command) == 0) {
        return failure(use, fmt::format("it does not apply to 'foresay {}'", command_name(line_->command)));
    }
    if (flag.support == Support::kRemoved) {
        return failure(use, fmt::format("it was removed; use {}", flag.note), Code::kUnsupported);
    }
    if (flag.support == Support::kUnsupported) {
        return failure(use, flag.note.empty() ? "not supported yet" : fmt::format("not supported yet: {}", flag.note),
                       Code::kUnsupported);
    }
    if (flag.support == Support::kRenamed) {
        return apply_renamed(use);
    }
    if (!seen_.insert(&flag).second && !flag.repeatable) {
        notice(log::Level::kWarn, fmt::format("argument '{}' was given more than once; the last one wins", use.source));
    }
    if (flag.support == Support::kNoEffect && told_.insert(flag.note).second) {
        notice(log::Level::kInfo, fmt::format("{} has no effect: {}", use.source, flag.note));
    }
    if (auto status = flag.set(line_->options, use.value); !status) {
        const std::string hint = fmt::format("\n\n{}\nRun 'foresay {} --help' for all flags.", flag_help(flag),
                                             command_name(line_->command));
        return failure(use, status.error().message + hint, status.error().code);
    }
    return ok();
}

Status Applier::apply_renamed(const Use& use) {
    const std::string& successor = use.match.flag->note;
    notice(log::Level::kWarn, fmt::format("{} is the old name of {}; it still works", use.source, successor));
    Use renamed = use;
    renamed.match = find_flag(successor);
    return apply(renamed);
}

Error unknown_flag(const std::string& spelling, Command command) {
    std::string message = fmt::format("error: invalid argument: {}", spelling);
    std::string near = nearest_flag(spelling, command);
    if (!near.empty()) {
        message += fmt::format("\nDid you mean {}?", near);
    } else if (near = nearest_flag(spelling, kAnyCommand); !near.empty()) {
        message += fmt::format("\nDid you mean {} (not a flag of 'foresay {}')?", near, command_name(command));
    }
    message += fmt::format("\nRun 'foresay {} --help' for all flags.", command_name(command));
    return error(Code::kInvalidArgument, message, spelling);
}

/// Cuts the arguments into uses. A value is the next argument, whatever it begins with, or what follows "=" in
/// --flag=value.
/// Those in front of an error are in *uses all the same.
Status cut(std::span<const std::string> args, CommandLine* line, std::vector<Use>* uses) {
    for (size_t i = 0; i < args.size(); ++i) {
        const std::string& arg = args[i];
        if (arg.size() < 2 || arg[0] != '-') {
            constexpr unsigned kWithFiles = kInspect | kPair | kTune | kDoctor;
            if ((line->command & kWithFiles) == 0) {
                return error(
                    Code::kInvalidArgument,
                    fmt::format("error: invalid argument: {}\nA prompt is given with -p, a model with -m.", arg));
            }
            line->options.local.files.push_back(arg);
            continue;
        }
        Use use{find_flag(arg, line->command), "", arg};
        const size_t equals = arg.find('=');
        const bool is_joined = use.match.flag == nullptr && arg[1] == '-' && equals != std::string::npos;
        if (is_joined) {
            use.source = arg.substr(0, equals);
            use.match = find_flag(use.source, line->command);
            use.value = arg.substr(equals + 1);
        }
        if (use.match.flag == nullptr) {
            return unknown_flag(use.source, line->command);
        }
        // A refused flag is refused whether or not its value is there.
        const bool is_refused =
            use.match.flag->support == Support::kUnsupported || use.match.flag->support == Support::kRemoved;
        const ValueKind kind = use.match.flag->kind();
        if (kind == ValueKind::kValue && !is_joined && !is_refused) {
            if (i + 1 == args.size()) {
                return failure(use, fmt::format("expected value for argument\n\n{}", flag_help(*use.match.flag)));
            }
            use.value = args[++i];
        } else if (kind == ValueKind::kBoolean) {
            if (is_joined) {
                const auto is_on = parse_bool(use.value);
                if (!is_on) {
                    return failure(use, is_on.error().message);
                }
                use.value = std::string(1, *is_on != use.match.negated ? '1' : '0');
            } else {
                use.value = std::string(1, use.match.negated ? '0' : '1');
            }
        } else if (kind == ValueKind::kNone && is_joined) {
            return failure(use, "it takes no value");
        }
        uses->push_back(std::move(use));
        if (is_refused) {
            break;  // nothing behind it can be told from its value; applying it ends with its error
        }
    }
    return ok();
}

/// The names under which the environment may set a flag, ours first.
std::vector<std::string> environment_names(const Flag& flag) {
    if (flag.env.empty()) {
        return {};
    }
    std::vector<std::string> names;
    for (const std::string_view prefix : {"LLAMA_ARG_", "LLAMA_"}) {
        if (flag.env.rfind(prefix, 0) == 0) {
            names.push_back("FORESAY_" + flag.env.substr(prefix.size()));
            break;
        }
    }
    names.push_back(flag.env);
    return names;
}

/// The use that the environment makes of a flag, or a null match.
Result<Use> environment_use(const Flag& flag, const Environment& environment) {
    for (const std::string& name : environment_names(flag)) {
        Use use{{}, "", name, true};
        if (const char* value = environment(name.c_str()); value != nullptr) {
            use.value = value;
            use.match.flag = &flag;
        } else if (const std::string off = "LLAMA_ARG_NO_" + name.substr(std::min(name.size(), size_t{10}));
                   flag.kind() == ValueKind::kBoolean && name.rfind("LLAMA_ARG_", 0) == 0 &&
                   environment(off.c_str()) != nullptr) {
            // As the peer: the variable's presence counts, not its value.
            use.source = off;
            use.value = std::string(1, '0');  // "0" would set off a false warning of g++ 12
            use.match.flag = &flag;
        } else {
            continue;
        }
        if (flag.kind() != ValueKind::kValue) {
            const auto is_on = parse_bool(use.value);
            if (!is_on) {
                return failure(use, is_on.error().message);
            }
            use.value = std::string(1, *is_on ? '1' : '0');
            if (flag.kind() == ValueKind::kNone && !*is_on) {
                return Use{};  // a switch that is off is the default
            }
        }
        return use;
    }
    return Use{};
}

Result<std::vector<Use>> environment_uses(CommandLine* line, const std::vector<Use>& given,
                                          const Environment& environment) {
    std::set<const Flag*> overridden;
    for (const Use& use : given) {
        const Flag* flag = use.match.flag;
        overridden.insert(flag->support == Support::kRenamed ? find_flag(flag->note).flag : flag);
    }
    std::vector<Use> uses;
    for (const FlagGroup& group : flag_groups()) {
        for (const Flag& flag : group.flags) {
            if ((flag.commands & line->command) == 0) {
                continue;
            }
            FORESAY_TRY(Use use, environment_use(flag, environment));
            if (use.match.flag == nullptr) {
                continue;
            }
            if (overridden.count(flag.support == Support::kRenamed ? find_flag(flag.note).flag : &flag) != 0) {
                line->notices.push_back(
                    {log::Level::kWarn,
                     fmt::format("environment variable {} is overridden by the command line", use.source)});
                continue;
            }
            uses.push_back(std::move(use));
        }
    }
    return uses;
}

/// Whether the chosen template can be used: better now than when the first chat comes.
Status check_template(const Options& options) {
    if (options.server.chat_template.empty()) {
        return ok();
    }
    chat::Source source;
    source.chosen = options.server.chat_template;
    source.jinja = options.server.jinja;
    const Result<chat::Templates> templates = chat::Templates::create(std::move(source));
    if (!templates) {
        return error(Code::kInvalidArgument, fmt::format("error while handling argument \"--chat-template\": {}",
                                                         templates.error().to_string()));
    }
    return ok();
}

/// The speculation types in order, and whether they agree with the rest.
Status settle_speculation(CommandLine* line) {
    Options& options = line->options;
    engine::SpecOptions& spec = options.engine.spec;
    spec.types = spec::in_order(std::move(spec.types));
    const auto n_models = std::count_if(spec.types.begin(), spec.types.end(), spec::is_draft_model);
    if (n_models > 1) {
        return error(Code::kInvalidArgument,
                     fmt::format("error while handling argument \"--spec-type\": {}: two types that run a draft model "
                                 "can't be combined",
                                 spec::join_names(spec.types)));
    }
    if (n_models == 1 && spec.draft_model.empty() && spec.types.back() != spec::SpecType::kDraftMtp) {
        return error(Code::kInvalidArgument,
                     fmt::format("error while handling argument \"--spec-type\": {} needs a draft model: give "
                                 "--spec-draft-model FILE",
                                 spec::name_of(spec.types.back())));
    }
    if (!options.spec_type_given && !spec.draft_model.empty()) {
        // The peer loads the drafter and never drafts: nobody wants that. What it is stands in its file.
        line->notices.push_back({log::Level::kInfo, "a draft model is given: its file says which --spec-type it is"});
    } else if (n_models == 0 && !spec.draft_model.empty()) {
        line->notices.push_back(
            {log::Level::kWarn, "the draft model is not used: --spec-type names no type that runs one"});
        spec.draft_model.clear();
    }
    const bool has_lookup = !spec.ngram.lookup_static.empty() || !spec.ngram.lookup_dynamic.empty();
    if (has_lookup &&
        std::find(spec.types.begin(), spec.types.end(), spec::SpecType::kNgramCache) == spec.types.end()) {
        line->notices.push_back(
            {log::Level::kWarn, "the lookup cache files are not used: --spec-type doesn't name ngram-cache"});
    }
    if (spec.n_min > spec.n_max) {
        return error(
            Code::kInvalidArgument,
            fmt::format("error while handling argument \"--spec-draft-n-min\": {} is above --spec-draft-n-max ({})",
                        spec.n_min, spec.n_max));
    }
    if (!spec.any() && spec.relaxed_top_n > 1) {
        line->notices.push_back({log::Level::kWarn, "--spec-draft-relaxed-top-n has no effect without speculation"});
    }
    if (spec.rule == spec::Rule::kRelaxed && spec.relaxed_top_n < 2) {
        return error(Code::kInvalidArgument,
                     "error while handling argument \"--spec-draft-rule\": the relaxed rule needs "
                     "--spec-draft-relaxed-top-n of 2 or more");
    }
    return ok();
}

/// The positional arguments of tune and doctor: TARGET [DRAFTER], as -m and --spec-draft-model.
Status take_pair(CommandLine* line) {
    engine::EngineOptions& engine = line->options.engine;
    const std::vector<std::string>& files = line->options.local.files;
    if (files.size() > 2) {
        return error(Code::kInvalidArgument,
                     fmt::format("error: give a target and its drafter: foresay {} TARGET [DRAFTER]",
                                 command_name(line->command)));
    }
    if (!files.empty()) {
        engine.model = files.front();
    }
    if (files.size() == 2) {
        engine.spec.draft_model = files.back();
    }
    return ok();
}

/// What no single flag can say.
Status finish(CommandLine* line) {
    Options& options = line->options;
    if (line->command == kInspect) {
        if (!options.engine.model.empty()) {
            options.local.files.push_back(options.engine.model);
        }
        if (options.local.files.empty()) {
            return error(Code::kInvalidArgument, "error: no file: foresay inspect FILE");
        }
        return ok();
    }
    if (line->command == kPair) {
        const size_t n = options.local.files.size();
        if (n == 0 || n > 2) {
            return error(Code::kInvalidArgument, "error: give a target and its drafter: foresay pair TARGET [DRAFTER]");
        }
        return ok();
    }
    if (line->command == kTune || line->command == kDoctor) {
        FORESAY_CHECK_OK(take_pair(line));
    }
    if (line->command == kBench) {
        return settle_speculation(line);
    }
    if (options.engine.model.empty()) {
        return error(
            Code::kInvalidArgument,
            fmt::format("error: no model: give a GGUF file with -m FILE\nRun 'foresay {} --help' for all flags.",
                        command_name(line->command)));
    }
    if ((line->command == kRun || line->command == kTokenize) && options.local.prompt.empty() &&
        options.local.prompt_file.empty()) {
        return error(Code::kInvalidArgument, "error: no prompt: give -p TEXT or -f FILE (- is standard input)");
    }
    FORESAY_CHECK_OK(check_template(line->options));
    FORESAY_CHECK_OK(settle_speculation(line));
    engine::EngineOptions& engine = options.engine;
    const int32_t wanted = options.n_ubatch_given > 0 ? options.n_ubatch_given : engine.n_ubatch;
    engine.n_ubatch = std::min(wanted, engine.n_batch);
    if (options.n_ubatch_given > engine.n_batch) {
        line->notices.push_back(
            {log::Level::kWarn, fmt::format("--ubatch-size is lowered to --batch-size ({})", engine.n_batch)});
    }
    options.server.sampling_defaults = options.sampling;
    options.server.n_predict = options.n_predict;
    return ok();
}

/// Takes the command's name off the arguments. help_topic and command are set in line.
Result<std::span<const std::string>> take_command(std::span<const std::string> args, CommandLine* line) {
    if (args.empty() || (!args[0].empty() && args[0][0] == '-')) {
        return args;
    }
    if (args[0] == "version") {
        line->options.version = true;
        return args.subspan(1);
    }
    const bool is_help = args[0] == "help";
    if (is_help) {
        line->options.help = true;
        args = args.subspan(1);
        if (args.empty()) {
            return args;
        }
    }
    std::vector<std::string> names{"help", "version"};
    for (const CommandName& known : kCommands) {
        if (args[0] == known.name) {
            line->command = known.command;
            line->help_topic = known.command;
            return args.subspan(1);
        }
        names.emplace_back(known.name);
    }
    const std::string near = nearest_word(args[0], names);
    return error(Code::kInvalidArgument,
                 fmt::format("error: unknown command: {}{}\nRun 'foresay --help' for the commands.", args[0],
                             near.empty() ? "" : fmt::format("\nDid you mean {}?", near)));
}

}  // namespace

std::string_view command_name(Command command) {
    for (const CommandName& known : kCommands) {
        if (known.command == command) {
            return known.name;
        }
    }
    return "serve";
}

Result<CommandLine> parse_command_line(std::span<const std::string> args, const Environment& environment) {
    CommandLine line;
    if (args.empty()) {
        return error(Code::kInvalidArgument, "error: no command\n\n" + short_usage());
    }
    FORESAY_TRY(args, take_command(args, &line));
    Applier applier(&line);
    std::vector<Use> given;
    if (auto status = cut(args, &line, &given); !status) {
        // A flag that swallowed the next one (-fa --port 1) is the cause, what is left over (1) the symptom: the first
        // error counts.
        for (const Use& use : given) {
            FORESAY_CHECK_OK(applier.apply(use));
        }
        return std::move(status).error();
    }
    const auto stops = [&] { return line.options.help || line.options.version || line.options.list_devices; };
    // Looked at before the environment: a bad variable must not keep --help from the user.
    const bool asks_only = std::any_of(given.begin(), given.end(), [](const Use& use) {
        const std::string& name = use.match.flag->canonical();
        return name == "--help" || name == "--version" || name == "--list-devices";
    });
    if (!asks_only && !stops()) {
        FORESAY_TRY(const std::vector<Use> inherited, environment_uses(&line, given, environment));
        for (const Use& use : inherited) {
            FORESAY_CHECK_OK(applier.apply(use));
        }
    }
    for (const Use& use : given) {
        FORESAY_CHECK_OK(applier.apply(use));
    }
    if (!stops()) {
        FORESAY_CHECK_OK(finish(&line));
    }
    return line;
}

std::string unescape(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\' || i + 1 == text.size()) {
            out += text[i];
            continue;
        }
        const char next = text[++i];
        switch (next) {
            case 'n':
                out += '\n';
                break;
            case 't':
                out += '\t';
                break;
            case 'r':
                out += '\r';
                break;
            case '\'':
                out += '\'';
                break;
            case '"':
                out += '"';
                break;
            case '\\':
                out += '\\';
                break;
            case 'x': {
                const std::string_view digits = text.substr(i + 1, 2);
                const std::string_view hex = "0123456789abcdefABCDEF";
                if (digits.size() == 2 && hex.find(digits[0]) != std::string_view::npos &&
                    hex.find(digits[1]) != std::string_view::npos) {
                    out += static_cast<char>(std::stoi(std::string(digits), nullptr, 16));
                    i += 2;
                    break;
                }
                out += "\\x";
                break;
            }
            default:
                out += '\\';
                out += next;
        }
    }
    return out;
}

}  // namespace foresay::cli
