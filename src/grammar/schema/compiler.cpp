#include "grammar/schema/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "grammar/gbnf.h"
#include "grammar/schema/merge.h"
#include "grammar/schema/text.h"

namespace foresay::grammar {
namespace {

constexpr size_t kMaxVisits = 20'000;
constexpr int kMaxDepth = 128;  // of visits within one another: longer chains are cycles of allOf
constexpr size_t kMaxIgnored = 32;

Error fail(const std::string& path, const std::string& message) {
    return error(Code::kInvalidArgument, fmt::format("at {}: {}", path, message));
}

/// "a", as a part of a path.
std::string below(const std::string& path, std::string_view name) {
    return fmt::format("{}/{}", path, name.substr(0, 64));
}

/// Words that constrain and have no effect here. Everything else that isn't known is a note of the author.
constexpr std::array<std::string_view, 17> kIgnored{"not",
                                                    "if",
                                                    "then",
                                                    "else",
                                                    "uniqueItems",
                                                    "contains",
                                                    "minContains",
                                                    "maxContains",
                                                    "patternProperties",
                                                    "propertyNames",
                                                    "dependencies",
                                                    "dependentRequired",
                                                    "dependentSchemas",
                                                    "multipleOf",
                                                    "unevaluatedProperties",
                                                    "unevaluatedItems",
                                                    "$dynamicRef"};

bool is_annotation(std::string_view key) {
    constexpr std::array<std::string_view, 14> kAnnotations{
        "$schema", "$id",      "$comment", "$defs",      "definitions", "$anchor",   "title",
        "default", "examples", "example",  "deprecated", "readOnly",    "writeOnly", "description"};
    return std::find(kAnnotations.begin(), kAnnotations.end(), key) != kAnnotations.end();
}

bool has_only_annotations_beside(const Json& schema, std::string_view key) {
    return std::all_of(schema.members.begin(), schema.members.end(),
                       [key](const auto& member) { return member.first == key || is_annotation(member.first); });
}

/// The schema without the keyword, and without notes.
Json rest_of(const Json& schema, std::string_view key) {
    Json rest;
    rest.type = Json::Type::kObject;
    for (const auto& member : schema.members) {
        if (member.first != key && !is_annotation(member.first)) {
            rest.members.push_back(member);
        }
    }
    return rest;
}

/// "%41" to "A", then "~1" to "/" and "~0" to "~": a part of a JSON pointer in a URI fragment.
std::string unescaped(std::string_view part) {
    std::string text;
    for (size_t i = 0; i < part.size(); ++i) {
        const auto hex = [&](size_t j) { return std::isxdigit(static_cast<unsigned char>(part[j])) != 0; };
        if (part[i] == '%' && i + 2 < part.size() && hex(i + 1) && hex(i + 2)) {
            text += static_cast<char>(std::strtol(std::string(part.substr(i + 1, 2)).c_str(), nullptr, 16));
            i += 2;
        } else {
            text += part[i];
        }
    }
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '~' && i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1')) {
            out += text[++i] == '0' ? '~' : '/';
        } else {
            out += text[i];
        }
    }
    return out;
}

/// Values in the tree, at most 64 levels deep.
size_t n_values(const Json& value) {
    size_t n = 1;
    for (const Json& item : value.items) {
        n += n_values(item);
    }
    for (const auto& member : value.members) {
        n += n_values(member.second);
    }
    return n;
}

std::string_view type_of_value(const Json& value) {
    return value.type_name();
}

/// What a schema without `type` is about, by its keywords: narrower than JSON Schema, which lets other types pass.
std::string_view inferred_type(const Json& schema) {
    const auto has = [&schema](auto... keys) { return ((schema.find(keys) != nullptr) || ...); };
    if (has("properties", "required", "additionalProperties", "minProperties", "maxProperties")) {
        return "object";
    }
    if (has("items", "prefixItems", "minItems", "maxItems")) {
        return "array";
    }
    if (has("pattern", "minLength", "maxLength", "format")) {
        return "string";
    }
    if (has("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")) {
        return "number";
    }
    return "value";
}

/// The bodies of the basic rules. At most one space, or a line end and indentation, between parts of a value: a model
/// can't spend its budget on blanks.
std::string_view basic_body(std::string_view name) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kBodies{{
        {"ws", R"( | " " | "\n" [ \t]{0,20})"},
        {"value", "object | array | string | number | boolean | null"},
        {"object", R"("{" ws (member ("," ws member)* ws)? "}")"},
        {"member", R"(string ":" ws value)"},
        {"array", R"("[" ws (value ("," ws value)* ws)? "]")"},
        {"char",
         R"([^\x22\x5C\x00-\x1F\x7F] | "\\" ([\x22\x5C/bfnrt] | "u" ([0-9abcefABCEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2} | [dD] [89abAB] [0-9a-fA-F]{2} "\\u" [dD] [c-fC-F] [0-9a-fA-F]{2})))"},
        {"string", R"("\"" char* "\"")"},
        {"number", R"("-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,15})? ([eE] [-+]? ("0" | [1-9] [0-9]?))?)"},
        {"boolean", R"("true" | "false")"},
        {"null", R"("null")"},
    }};
    for (const auto& [known, body] : kBodies) {
        if (known == name) {
            return body;
        }
    }
    return {};
}

}  // namespace

std::string Compiler::basic(std::string_view name) {
    std::string key(name);
    if (rules_.emplace(key, std::string(basic_body(name))).second) {
        order_.push_back(key);
        for (const std::string_view part : {"value", "object", "member", "array"}) {
            if (name == part) {
                for (const std::string_view used :
                     {"ws", "value", "object", "member", "array", "char", "string", "number", "boolean", "null"}) {
                    basic(used);
                }
            }
        }
        if (name == "string") {
            basic("char");
        }
    }
    return key;
}

std::string Compiler::rule(std::string_view hint, const std::string& body) {
    const auto [it, is_new] = rule_of_body_.try_emplace(body);
    if (is_new) {
        std::string name;
        for (const char c : hint.substr(0, 24)) {
            name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
        }
        it->second = fmt::format("{}-{}", name.empty() ? "rule" : name, rule_of_body_.size());
        n_bytes_ += it->second.size() + body.size() + 6;
        rules_.emplace(it->second, body);
        order_.push_back(it->second);
    }
    return it->second;
}

Status Compiler::check_size(const std::string& path) const {
    if (n_visits_ > kMaxVisits || n_bytes_ > kMaxGbnfBytes) {
        return fail(path, "the schema is too large");
    }
    if (depth_ > kMaxDepth) {
        return fail(path, "the schema is nested too deeply, or contains itself by allOf or $ref alone");
    }
    return ok();
}

Status Compiler::count_copy(const Json& schema, const std::string& path) {
    constexpr size_t kMaxCopied = 2'000'000;  // about half a second
    n_copied_ += n_values(schema);
    return n_copied_ > kMaxCopied ? Status(fail(path, "the schema takes too many combinations")) : ok();
}

void Compiler::note(std::string what) {
    if (ignored_.size() < kMaxIgnored && std::find(ignored_.begin(), ignored_.end(), what) == ignored_.end()) {
        ignored_.push_back(std::move(what));
    }
}

void Compiler::note_ignored(const Json& schema, const std::string& path) {
    for (const auto& member : schema.members) {
        if (std::find(kIgnored.begin(), kIgnored.end(), member.first) != kIgnored.end()) {
            note(fmt::format("{} at {}", member.first, path));
        }
    }
}

Result<const Json*> Compiler::resolve(const std::string& reference, const std::string& path) const {
    if (reference.empty() || reference[0] != '#' || (reference.size() > 1 && reference[1] != '/')) {
        return fail(path, fmt::format("$ref '{}' is not supported: only '#' and '#/...' within the schema are",
                                      reference.substr(0, 128)));
    }
    const Json* at = &root_;
    std::string_view rest = std::string_view(reference).substr(1);
    while (!rest.empty()) {
        rest.remove_prefix(1);
        const size_t slash = std::min(rest.find('/'), rest.size());
        const std::string part = unescaped(rest.substr(0, slash));
        rest.remove_prefix(slash);
        const Json* next = at->find(part);
        if (next == nullptr && at->is(Json::Type::kArray) && !part.empty() && part.size() < 7 &&
            std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; })) {
            const size_t i = std::stoul(part);
            next = i < at->items.size() ? &at->items[i] : nullptr;
        }
        if (next == nullptr) {
            return fail(path, fmt::format("$ref '{}' leads nowhere", reference.substr(0, 128)));
        }
        at = next;
    }
    return at;
}

Result<Compiler::Atom> Compiler::visit_reference(const std::string& reference, const std::string& path) {
    if (const auto known = references_.find(reference); known != references_.end()) {
        return Atom(known->second);
    }
    FORESAY_TRY(const Json* target, resolve(reference, path));
    const size_t slash = reference.rfind('/');
    std::string hint = slash == std::string::npos ? "self" : reference.substr(slash + 1, 24);
    std::replace_if(
        hint.begin(), hint.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '-');
    // The name goes first: the target may refer to itself.
    const std::string name = fmt::format("ref{}-{}", n_references_++, hint);
    references_.emplace(reference, name);
    FORESAY_TRY(const Atom body, visit(*target, reference.substr(0, 128)));
    if (!body) {
        return fail(path, fmt::format("$ref '{}' leads to a schema that allows no value", reference.substr(0, 128)));
    }
    rules_.emplace(name, *body);
    order_.push_back(name);
    return Atom(name);
}

Result<Json> Compiler::flattened(const Json& schema, const std::string& path, int depth) {
    if (depth > 32) {
        return fail(path, "allOf and $ref are nested too deeply, or contain themselves");
    }
    if (++n_visits_ > kMaxVisits) {
        return fail(path, "the schema is too large");
    }
    if (!schema.is(Json::Type::kObject)) {
        if (!schema.is(Json::Type::kBool)) {
            return fail(path, fmt::format("a schema must be an object or a boolean, not {}", schema.type_name()));
        }
        return schema;
    }
    FORESAY_CHECK_OK(count_copy(schema, path));
    Json out = rest_of(schema, "$ref");
    if (const Json* reference = schema.find("$ref"); reference != nullptr) {
        FORESAY_TRY(const Json* target, resolve(reference->text, path));
        FORESAY_TRY(const Json other, flattened(*target, path, depth + 1));
        out.erase("allOf");
        FORESAY_TRY(out, merged(out, other));
    }
    if (const Json* parts = schema.find("allOf"); parts != nullptr) {
        if (!parts->is(Json::Type::kArray)) {
            return fail(path, fmt::format("allOf must be an array, not {}", parts->type_name()));
        }
        out.erase("allOf");
        for (size_t i = 0; i < parts->items.size(); ++i) {
            FORESAY_TRY(const Json other, flattened(parts->items[i], fmt::format("{}/allOf/{}", path, i), depth + 1));
            FORESAY_CHECK_OK(count_copy(out, path));
            auto both = merged(out, other);
            if (!both.has_value()) {
                return fail(path, both.error().message);
            }
            out = std::move(*both);
        }
    }
    return out;
}

Result<Compiler::Atom> Compiler::visit_all_of(const Json& schema, const std::string& path) {
    FORESAY_TRY(const Json flat, flattened(schema, path, 0));
    return visit(flat, path);
}

Result<Compiler::Atom> Compiler::visit_alternatives(const Json& base, const std::vector<Json>& alternatives,
                                                    const std::string& path) {
    std::vector<std::string> choices;
    for (size_t i = 0; i < alternatives.size(); ++i) {
        const std::string place = fmt::format("{}/{}", path, i);
        Atom atom;
        if (base.members.empty()) {
            FORESAY_TRY(atom, visit(alternatives[i], place));
        } else {
            FORESAY_CHECK_OK(count_copy(base, place));
            Json both;
            both.type = Json::Type::kObject;
            both.set("allOf", Json::of_array({base, alternatives[i]}));
            FORESAY_TRY(atom, visit(both, place));
        }
        if (atom && std::find(choices.begin(), choices.end(), *atom) == choices.end()) {
            choices.push_back(std::move(*atom));
        }
    }
    if (choices.empty()) {
        return Atom();
    }
    return Atom(choices.size() == 1 ? choices.front() : rule("choice", choice(choices)));
}

/// enum and const.
Result<Compiler::Atom> Compiler::visit_listed(const Json& schema, const std::string& path) {
    std::vector<Json> values;
    const Json* listed = schema.find("enum");
    if (listed != nullptr) {
        if (!listed->is(Json::Type::kArray)) {
            return fail(path, fmt::format("enum must be an array, not {}", listed->type_name()));
        }
        values = listed->items;
    }
    if (const Json* only = schema.find("const"); only != nullptr) {
        const bool is_in = listed == nullptr || std::any_of(values.begin(), values.end(), [only](const Json& value) {
                               return to_text(value) == to_text(*only);
                           });
        values.assign(is_in ? 1 : 0, *only);
    }
    const Json* type = schema.find("type");
    std::vector<std::string> choices;
    for (const Json& value : values) {
        const auto fits = [&value](const Json& wanted) {
            return wanted.text == type_of_value(value) || (wanted.text == "number" && value.is_number());
        };
        const bool is_fitting =
            type == nullptr ||
            (type->is(Json::Type::kArray) ? std::any_of(type->items.begin(), type->items.end(), fits) : fits(*type));
        if (is_fitting) {
            choices.push_back(gbnf_literal(to_text(value)));
            n_bytes_ += choices.back().size();
        }
    }
    if (choices.empty()) {
        return Atom();
    }
    return Atom(choices.size() == 1 ? choices.front() : rule("enum", choice(choices)));
}

Result<Compiler::Atom> Compiler::visit_type(const Json& schema, std::string_view type, const std::string& path) {
    if (type == "string") {
        return visit_string(schema, path);
    }
    if (type == "integer" || type == "number") {
        return visit_number(schema, type == "integer", path);
    }
    if (type == "object") {
        return visit_object(schema, path);
    }
    if (type == "array") {
        return visit_array(schema, path);
    }
    if (type == "boolean" || type == "null" || type == "value") {
        return Atom(basic(type));
    }
    return fail(path, fmt::format("unknown type '{}'", type.substr(0, 64)));
}

Result<Compiler::Atom> Compiler::visit(const Json& schema, const std::string& path) {
    ++n_visits_;

    struct Depth {
        int& value;

        explicit Depth(int& v) : value(v) { ++value; }

        ~Depth() { --value; }

        Depth(const Depth&) = delete;
        Depth& operator=(const Depth&) = delete;
    };

    const Depth depth(depth_);
    FORESAY_CHECK_OK(check_size(path));
    if (schema.is(Json::Type::kBool)) {
        return schema.boolean ? Atom(basic("value")) : Atom();
    }
    if (!schema.is(Json::Type::kObject)) {
        return fail(path, fmt::format("a schema must be an object or a boolean, not {}", schema.type_name()));
    }
    note_ignored(schema, path);
    if (const Json* reference = schema.find("$ref"); reference != nullptr) {
        if (!reference->is(Json::Type::kString)) {
            return fail(path, fmt::format("$ref must be a string, not {}", reference->type_name()));
        }
        return has_only_annotations_beside(schema, "$ref") ? visit_reference(reference->text, path)
                                                           : visit_all_of(schema, path);
    }
    if (schema.find("allOf") != nullptr) {
        return visit_all_of(schema, path);
    }
    for (const char* key : {"anyOf", "oneOf"}) {
        if (const Json* alternatives = schema.find(key); alternatives != nullptr) {
            if (!alternatives->is(Json::Type::kArray) || alternatives->items.empty()) {
                return fail(path, fmt::format("{} must be an array with at least one schema", key));
            }
            return visit_alternatives(rest_of(schema, key), alternatives->items, below(path, key));
        }
    }
    if (schema.find("enum") != nullptr || schema.find("const") != nullptr) {
        return visit_listed(schema, path);
    }
    const Json* type = schema.find("type");
    if (type == nullptr) {
        return visit_type(schema, inferred_type(schema), path);
    }
    if (type->is(Json::Type::kString)) {
        return visit_type(schema, type->text, path);
    }
    if (!type->is(Json::Type::kArray) || type->items.empty()) {
        return fail(path, "type must be a string or a list of strings");
    }
    std::vector<std::string> choices;
    for (const Json& one : type->items) {
        if (!one.is(Json::Type::kString)) {
            return fail(path, "type must be a string or a list of strings");
        }
        FORESAY_TRY(Atom atom, visit_type(schema, one.text, path));
        if (atom) {
            choices.push_back(std::move(*atom));
        }
    }
    if (choices.empty()) {
        return Atom();
    }
    return Atom(choices.size() == 1 ? choices.front() : rule("types", choice(choices)));
}

Result<std::string> Compiler::add(Json root) {
    root_ = std::move(root);
    references_.clear();
    FORESAY_TRY(const Atom atom, visit(root_, "#"));
    if (!atom) {
        return error(Code::kInvalidArgument, "the schema allows no value");
    }
    return *atom;
}

Result<SchemaGrammar> Compiler::finish(std::string_view root_body) const {
    SchemaGrammar out;
    out.gbnf.append("root ::= ").append(root_body).append("\n");
    for (const std::string& name : order_) {
        out.gbnf.append(name).append(" ::= ").append(rules_.at(name)).append("\n");
    }
    if (out.gbnf.size() > kMaxGbnfBytes) {
        return error(Code::kInvalidArgument, "the schema is too large: its grammar has more than 1 MiB");
    }
    out.ignored = ignored_;
    return out;
}

SchemaSet::SchemaSet() : compiler_(std::make_unique<Compiler>()) {}

SchemaSet::~SchemaSet() = default;

Result<std::string> SchemaSet::add(std::string_view schema) {
    FORESAY_TRY(Json root, parse_json(schema));
    return compiler_->add(std::move(root));
}

Result<SchemaGrammar> SchemaSet::finish(std::string_view root_body) const {
    return compiler_->finish(root_body);
}

Result<SchemaGrammar> schema_to_gbnf(std::string_view schema) {
    SchemaSet set;
    FORESAY_TRY(const std::string root, set.add(schema));
    return set.finish(root);
}

}  // namespace foresay::grammar
