// Objects and arrays of a schema.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/gbnf.h"
#include "grammar/schema/compiler.h"
#include "grammar/schema/text.h"

namespace foresay::grammar {
namespace {

Error fail(const std::string& path, const std::string& message) {
    return error(Code::kInvalidArgument, fmt::format("at {}: {}", path, message));
}

/// Code points of valid UTF-8 (JSON strings are).
std::vector<uint32_t> code_points(std::string_view text) {
    std::vector<uint32_t> out;
    for (size_t i = 0; i < text.size();) {
        const auto first = static_cast<unsigned char>(text[i]);
        const size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
        uint32_t value = size == 1 ? first : first & (0x7FU >> size);
        for (size_t j = 1; j < size && i + j < text.size(); ++j) {
            value = (value << 6U) | (static_cast<unsigned char>(text[i + j]) & 0x3FU);
        }
        out.push_back(value);
        i += size;
    }
    return out;
}

/// Names as a trie, for keys that are none of them.
struct NameNode {
    std::map<uint32_t, NameNode> next;
    bool is_name = false;
};

}  // namespace

Result<std::optional<std::vector<Compiler::Property>>> Compiler::properties_of(const Json& schema,
                                                                               const std::string& path) {
    using Properties = std::optional<std::vector<Property>>;
    const Json* required = schema.find("required");
    if (required != nullptr && !required->is(Json::Type::kArray)) {
        // Draft 3 had a boolean here.
        return fail(path, fmt::format("required must be an array of names, not {}", required->type_name()));
    }
    std::map<std::string_view, bool> is_required;  // and whether `properties` names it
    for (size_t i = 0; required != nullptr && i < required->items.size(); ++i) {
        if (!required->items[i].is(Json::Type::kString)) {
            return fail(path, "required must be an array of names");
        }
        is_required.emplace(required->items[i].text, false);
    }
    std::vector<Property> out;
    const auto add = [this, &out](const std::string& name, const std::string& value, bool is_needed) {
        std::string pair = gbnf_literal(to_text(Json::of_string(name)) + ":");
        pair.append(" ").append(basic("ws")).append(" ").append(value);
        out.push_back({name, rule(name, pair), is_needed});
    };
    const Json* properties = schema.find("properties");
    if (properties != nullptr && !properties->is(Json::Type::kObject)) {
        return fail(path, fmt::format("properties must be an object, not {}", properties->type_name()));
    }
    for (size_t i = 0; properties != nullptr && i < properties->members.size(); ++i) {
        const auto& [name, sub] = properties->members[i];
        const auto needed = is_required.find(name);
        if (needed != is_required.end()) {
            needed->second = true;
        }
        FORESAY_TRY(const Atom value, visit(sub, fmt::format("{}/properties/{}", path, name.substr(0, 64))));
        if (!value) {
            if (needed != is_required.end()) {
                return Properties();
            }
            continue;  // a property that no value fits must be absent
        }
        add(name, *value, needed != is_required.end());
    }
    // Required and not described: any value, or what additionalProperties says of it.
    const Json* extra = schema.find("additionalProperties");
    for (size_t i = 0; required != nullptr && i < required->items.size(); ++i) {
        const std::string& name = required->items[i].text;
        bool& is_done = is_required[name];
        if (is_done) {
            continue;
        }
        is_done = true;
        FORESAY_TRY(const Atom value,
                    visit(extra != nullptr ? *extra : Json::of_bool(true), path + "/additionalProperties"));
        if (!value) {
            return Properties();
        }
        add(name, *value, true);
    }
    return Properties(std::move(out));
}

/// A key that is none of the names. Without escapes, so that no name comes in another spelling.
Result<std::string> Compiler::key_except(const std::vector<Property>& properties, const std::string& path) {
    constexpr size_t kLongestName = 256;  // a level of the trie for each character
    NameNode root;
    for (const Property& property : properties) {
        if (property.name.size() > kLongestName) {
            return fail(path, fmt::format("property names above {} bytes beside additionalProperties are not supported",
                                          kLongestName));
        }
        NameNode* node = &root;
        for (const uint32_t c : code_points(property.name)) {
            node = &node->next[c];
        }
        node->is_name = true;
    }
    const std::vector<CodeRange> plain = complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}});
    const std::string any = gbnf_class(plain);

    // Depth first without recursion: names may be long. A node's rule is written after those below it.
    struct Visit {
        const NameNode* node;
        std::map<uint32_t, NameNode>::const_iterator child;
        std::vector<std::string> choices;
    };

    std::vector<Visit> open;
    open.push_back({&root, root.next.begin(), {}});
    while (true) {
        Visit& top = open.back();
        if (top.child != top.node->next.end()) {
            const NameNode* child = &top.child->second;
            open.push_back({child, child->next.begin(), {}});
            continue;
        }
        std::vector<CodeRange> taken;
        for (const auto& entry : top.node->next) {
            taken.push_back({entry.first, entry.first});
        }
        const std::vector<CodeRange> other = without(plain, taken);
        if (!other.empty()) {
            top.choices.push_back(std::string(gbnf_class(other)).append(" ").append(any).append("* \"\\\"\""));
        }
        if (!top.node->is_name) {
            top.choices.emplace_back("\"\\\"\"");
        }
        const std::string name = rule("key", choice(top.choices));
        open.pop_back();
        if (open.empty()) {
            return std::string("\"\\\"\" ").append(name);
        }
        Visit& parent = open.back();
        const uint32_t c = parent.child->first;
        ++parent.child;
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F) {
            parent.choices.push_back(std::string(gbnf_class({{c, c}})).append(" ").append(name));
        }
    }
}

/// The pair of a property that isn't named; none: there may be no such.
Result<Compiler::Atom> Compiler::extra_pair(const Json& schema, const std::vector<Property>& properties,
                                            const std::string& path) {
    const Json* extra = schema.find("additionalProperties");
    const bool is_absent = extra == nullptr;
    if (is_absent && schema.find("properties") != nullptr) {
        return Atom();  // as the peer: what isn't described isn't offered
    }
    FORESAY_TRY(const Atom value, visit(is_absent ? Json::of_bool(true) : *extra, path + "/additionalProperties"));
    if (!value) {
        return Atom();
    }
    std::string key;
    if (properties.empty()) {
        key = basic("string");
    } else {
        FORESAY_TRY(key, key_except(properties, path));
    }
    return Atom(rule("extra", std::string(key).append(" \":\" ").append(basic("ws")).append(" ").append(*value)));
}

/// Properties in order, each optional one there or not; commas only between. rest-i is what may follow when something
/// stands before property i: so the text is linear in the number of properties.
std::string Compiler::object_text(const std::vector<Property>& properties, const Atom& extra) {
    const std::string comma = std::string("\",\" ").append(basic("ws")).append(" ");
    const std::string more = extra ? std::string("(").append(comma).append(*extra).append(")*") : "\"\"";
    std::vector<std::string> rests(properties.size() + 1, more);
    for (size_t i = properties.size(); i-- > 0;) {
        const Property& property = properties[i];
        std::string pair = comma + property.pair;
        pair = property.is_required ? pair : std::string("(").append(pair).append(")?");
        rests[i] = rule("rest", std::string(pair).append(" ").append(rests[i + 1]));
    }
    std::vector<std::string> firsts;
    bool can_be_empty = true;
    for (size_t i = 0; i < properties.size() && can_be_empty; ++i) {
        firsts.push_back(std::string(properties[i].pair).append(" ").append(rests[i + 1]));
        can_be_empty = !properties[i].is_required;
    }
    if (can_be_empty && extra) {
        firsts.push_back(std::string(*extra).append(" ").append(more));
    }
    std::string body = std::string("\"{\" ").append(basic("ws"));
    if (!firsts.empty()) {
        const std::string members = std::string("(").append(choice(firsts)).append(") ").append(basic("ws"));
        body.append(can_be_empty ? std::string(" (").append(members).append(")?") : std::string(" ").append(members));
    }
    return body.append(" \"}\"");
}

Result<Compiler::Atom> Compiler::visit_object(const Json& schema, const std::string& path) {
    FORESAY_TRY(const auto properties, properties_of(schema, path));
    if (!properties) {
        return Atom();
    }
    FORESAY_TRY(const Atom extra, extra_pair(schema, *properties, path));
    FORESAY_TRY(const auto min, count_of(schema, "minProperties", path));
    FORESAY_TRY(const auto max, count_of(schema, "maxProperties", path));
    if (!min && !max) {
        return Atom(rule("object", object_text(*properties, extra)));
    }
    if (!properties->empty() || !extra) {
        note(fmt::format("minProperties or maxProperties at {}", path));
        return Atom(rule("object", object_text(*properties, extra)));
    }
    // Equal keys would count once: nothing keeps a model from repeating one.
    const uint32_t least = min.value_or(0);
    const uint32_t most = max.value_or(kUnbounded);
    if (most < least) {
        return Atom();
    }
    if (most == 0) {
        return Atom(rule("object", std::string("\"{\" ").append(basic("ws")).append(" \"}\"")));
    }
    std::string members = *extra;
    members.append(" (\",\" ").append(basic("ws")).append(" ").append(*extra).append(")");
    members.append(repetition(least > 0 ? least - 1 : 0, most == kUnbounded ? most : most - 1));
    members.append(" ").append(basic("ws"));
    members = least == 0 ? std::string("(").append(members).append(")?") : members;
    return Atom(rule("object", std::string("\"{\" ").append(basic("ws")).append(" ").append(members).append(" \"}\"")));
}

Result<Compiler::Atom> Compiler::visit_array(const Json& schema, const std::string& path) {
    FORESAY_TRY(const auto min, count_of(schema, "minItems", path));
    FORESAY_TRY(const auto max, count_of(schema, "maxItems", path));
    const Json* items = schema.find("items");
    const Json* prefix = schema.find("prefixItems");
    if (items != nullptr && items->is(Json::Type::kArray)) {  // the form of draft 7
        prefix = items;
        items = schema.find("additionalItems");
    }
    if (prefix != nullptr && !prefix->is(Json::Type::kArray)) {
        return fail(path, fmt::format("prefixItems must be an array, not {}", prefix->type_name()));
    }
    const uint32_t least = min.value_or(0);
    const uint32_t most = max.value_or(kUnbounded);
    if (most < least) {
        return Atom();
    }
    const std::string comma = std::string("\",\" ").append(basic("ws")).append(" ");
    std::string body;
    uint32_t n_items = 0;
    for (size_t i = 0; prefix != nullptr && i < prefix->items.size() && n_items < most; ++i, ++n_items) {
        FORESAY_TRY(const Atom item, visit(prefix->items[i], fmt::format("{}/prefixItems/{}", path, i)));
        if (!item) {
            if (n_items < least) {
                return Atom();
            }
            break;
        }
        body.append(i == 0 ? "" : " ").append(i == 0 ? "" : comma).append(*item);
        // Nothing may follow a place that can't be filled, so the loop ends there; what stands so far must be enough.
    }
    const bool is_whole = prefix == nullptr || n_items == prefix->items.size();
    // Without `items` a list of fixed parts ends with them, as the peer has it; a list without parts holds anything.
    const bool has_more = is_whole && n_items < most && (items != nullptr || prefix == nullptr || n_items < least);
    Atom item;
    if (has_more) {
        FORESAY_TRY(item, visit(items != nullptr ? *items : Json::of_bool(true), path + "/items"));
    }
    if (!item && n_items < least) {
        return Atom();
    }
    if (item) {
        const uint32_t more_least = least > n_items ? least - n_items : 0;
        const uint32_t more_most = most == kUnbounded ? most : most - n_items;
        const std::string next = std::string("(").append(comma).append(*item).append(")");
        if (n_items > 0) {
            body.append(" ").append(next).append(repetition(more_least, more_most));
        } else {
            std::string list = std::string(*item).append(" ").append(next);
            list.append(
                repetition(more_least > 0 ? more_least - 1 : 0, more_most == kUnbounded ? more_most : more_most - 1));
            body = more_least == 0 ? std::string("(").append(list).append(" ").append(basic("ws")).append(")?") : list;
            n_items = more_least;  // whether the blanks are in the group already
        }
    }
    std::string out = std::string("\"[\" ").append(basic("ws"));
    if (!body.empty()) {
        out.append(" ").append(body);
        out.append(n_items > 0 ? std::string(" ").append(basic("ws")) : std::string());
    }
    return Atom(rule("array", out.append(" \"]\"")));
}

}  // namespace foresay::grammar
