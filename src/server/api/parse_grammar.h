// Structured output: grammar, json_schema, response_format and the triggers of lazy grammars to sampling::Params.
// Internal to server/api. Source: shared/spec/server-api.md, sections 4.2, 5 and 7.2.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sampling/sampler.h"
#include "server/api/fields.h"

namespace foresay::server {

/// A request with a grammar and a schema: /completion lets the grammar win, the OpenAI routes refuse it.
enum class GrammarRule { kGrammarWins, kRefuseBoth };

/// body: the text of the object that `fields` reads; of it the order of a schema's properties is taken. What was
/// ignored in a schema is logged. Grammars themselves are checked when the sampler is made.
void parse_grammar(Fields& fields, std::string_view body, GrammarRule rule, sampling::Params* params);

/// The schema that json_schema or response_format asks for, as JSON text; none: free text. object: read from body.
Result<std::optional<std::string>> asked_schema(const JsonIn& object, std::string_view body);

}  // namespace foresay::server
