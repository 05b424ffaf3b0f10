// The grammar of a model's tool calls: what tool_choice and parallel_tool_calls let it write, in the form that its
// template asks for. Pure; must not know HTTP. Read next: chat/syntax.h (the forms), chat/output.h (which reads what
// this lets through), mark_text.h. Source: shared/spec/server-api.md, sections 4.2 and 7.2.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "chat/output.h"
#include "sampling/sampler.h"
#include "vocab/vocab.h"

namespace foresay::server {

struct CallRules {
    chat::Syntax syntax;       ///< with calls
    chat::Json tools;          ///< those that may be called: a list of functions with names
    bool is_required = false;  ///< the reply is a call, behind thoughts if it has some
    bool is_parallel = true;   ///< several calls
    bool starts_in_reasoning = false;
    /// JSON text; not empty: a reply that is no call is JSON under this schema.
    std::string content_schema;
};

/// Writes grammar, grammar_lazy and grammar_triggers. Where the model is free to answer in text the grammar sleeps
/// until a call begins. Errors: invalid_argument naming the tool whose parameters can't be followed.
Status constrain_calls(const CallRules& rules, const vocab::Vocab& vocab, sampling::Params* params);

}  // namespace foresay::server
