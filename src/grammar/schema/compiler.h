// The compiler of one schema: walks it and writes rules. In reading order: compiler.cpp (dispatch, references,
// combinations), merge.h (allOf), compile_values.cpp (strings, numbers), compile_objects.cpp (objects, arrays).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/schema.h"
#include "grammar/schema/json_tree.h"

namespace foresay::grammar {

class Compiler {
  public:
    /// The atom of one more schema.
    Result<std::string> add(Json root);
    Result<SchemaGrammar> finish(std::string_view root_body) const;

  private:
    /// An atom of GBNF; none: the schema allows no value.
    using Atom = std::optional<std::string>;

    // compiler.cpp
    Result<Atom> visit(const Json& schema, const std::string& path);
    Result<Atom> visit_reference(const std::string& reference, const std::string& path);
    Result<Atom> visit_alternatives(const Json& base, const std::vector<Json>& alternatives, const std::string& path);
    Result<Atom> visit_all_of(const Json& schema, const std::string& path);
    Result<Atom> visit_listed(const Json& schema, const std::string& path);
    Result<Atom> visit_type(const Json& schema, std::string_view type, const std::string& path);
    Result<const Json*> resolve(const std::string& reference, const std::string& path) const;
    /// The schema with its references at the top and its allOf replaced by what they say.
    Result<Json> flattened(const Json& schema, const std::string& path, int depth);
    void note_ignored(const Json& schema, const std::string& path);
    void note(std::string what);  ///< adds to what is reported as ignored
    /// A rule of its own for the body; equal bodies share one.
    std::string rule(std::string_view hint, const std::string& body);
    /// The rule of a basic value, written when first used.
    std::string basic(std::string_view name);
    Status check_size(const std::string& path) const;
    /// Before a schema is copied or merged: hostile ones would ask for it many thousand times.
    Status count_copy(const Json& schema, const std::string& path);

    // compile_values.cpp
    Result<Atom> visit_string(const Json& schema, const std::string& path);
    Result<Atom> visit_number(const Json& schema, bool is_integer, const std::string& path);
    Result<std::optional<uint32_t>> count_of(const Json& schema, std::string_view key, const std::string& path);

    // compile_objects.cpp
    struct Property {
        std::string name;
        std::string pair;  ///< atom: key, colon and value
        bool is_required = false;
    };

    Result<Atom> visit_object(const Json& schema, const std::string& path);
    Result<std::optional<std::vector<Property>>> properties_of(const Json& schema, const std::string& path);
    Result<Atom> extra_pair(const Json& schema, const std::vector<Property>& properties, const std::string& path);
    Result<std::string> key_except(const std::vector<Property>& properties, const std::string& path);
    std::string object_text(const std::vector<Property>& properties, const Atom& extra);
    Result<Atom> visit_array(const Json& schema, const std::string& path);

    Json root_;                                 ///< of the schema that is being compiled: where references lead
    std::map<std::string, std::string> rules_;  ///< name to body
    std::vector<std::string> order_;            ///< names as written
    std::map<std::string, std::string> rule_of_body_;
    std::map<std::string, std::string> references_;  ///< pointer to rule, in the schema that is being compiled
    size_t n_references_ = 0;
    std::vector<std::string> ignored_;
    size_t n_visits_ = 0;
    size_t n_copied_ = 0;  ///< values
    size_t n_bytes_ = 0;
    int depth_ = 0;
};

}  // namespace foresay::grammar
