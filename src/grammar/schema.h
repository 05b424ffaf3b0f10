// JSON Schema to GBNF: a text that the grammar takes is JSON that is valid under the schema. Read next:
// schema/compiler.h. Source: shared/spec/sampling.md, section 5; json-schema.org, draft 2020-12.
//
// Supported: type, enum, const, properties, required, additionalProperties, minProperties and maxProperties of objects
// without named properties, items, prefixItems, minItems, maxItems, anyOf, oneOf (as anyOf), allOf, local $ref,
// minLength, maxLength, pattern, format (date, time, date-time, uuid), minimum, maximum, exclusiveMinimum,
// exclusiveMaximum. Narrower than the schema, as the peer: properties come in the schema's order, additionalProperties
// defaults to false where properties are named, all prefixItems are there. Ignored, and reported: every other keyword
// that constrains.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foresay::grammar {

struct SchemaGrammar {
    std::string gbnf;
    std::vector<std::string> ignored;  ///< "uniqueItems at #/properties/a": keywords without effect, at most 32
};

/// schema: JSON text, of which the order of properties is kept.
/// Errors: invalid_argument with the place in the schema: no JSON, a malformed keyword, a reference that isn't local or
/// leads nowhere, a pattern beyond the supported, a schema that allows no value or is too large.
Result<SchemaGrammar> schema_to_gbnf(std::string_view schema);

/// Several schemas in one grammar: for calls of tools, say, each with its own parameters.
class SchemaSet {
  public:
    SchemaSet();
    ~SchemaSet();

    /// An atom to be used in the root's body. References lead into this schema only. Errors: those of schema_to_gbnf.
    Result<std::string> add(std::string_view schema);
    /// The grammar with this body of `root`, in which gbnf_literal() quotes texts.
    Result<SchemaGrammar> finish(std::string_view root_body) const;

  private:
    std::unique_ptr<class Compiler> compiler_;
};

/// "..." with escapes. text: valid UTF-8.
std::string gbnf_literal(std::string_view text);

}  // namespace foresay::grammar
