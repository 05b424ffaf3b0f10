#include "chat/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "chat/jinja/parser_impl.h"

namespace foresay::jinja {

Result<Body> parse(std::string_view source, const ParseOptions& options) {
    FORESAY_TRY(std::vector<Token> tokens, tokenize(source));
    return Parser(std::move(tokens), options).run();
}

Result<Body> Parser::run() {
    FORESAY_TRY(Body statements, body({}));
    if (!unknown_.empty()) {
        return error(Code::kUnsupported, unknown_.front().message, to_string(unknown_.front().position));
    }
    return statements;
}

bool Parser::take_operator(std::string_view op) {
    const bool found = is_operator(op);
    if (found) {
        step();
    }
    return found;
}

bool Parser::take_name(std::string_view name) {
    const bool found = is_name(name);
    if (found) {
        step();
    }
    return found;
}

std::string Parser::here() const {
    switch (now().kind) {
        case Token::Kind::kEnd:
            return "the end of the template";
        case Token::Kind::kTagEnd:
        case Token::Kind::kOutputEnd:
            return "the end of the tag";
        case Token::Kind::kString:
            return "a string";
        default:
            return fmt::format("'{}'", now().text);
    }
}

Error Parser::fail_at(Position position, std::string message) const {
    return error(Code::kInvalidArgument, std::move(message), to_string(position));
}

Error Parser::fail(std::string message) const {
    return fail_at(now().position, std::move(message));
}

Status Parser::expect_operator(std::string_view op) {
    return take_operator(op) ? ok() : Status(fail(fmt::format("expected '{}', found {}", op, here())));
}

Status Parser::expect_tag_end() {
    if (!is(Token::Kind::kTagEnd)) {
        return fail(fmt::format("expected the end of the tag, found {}", here()));
    }
    step();
    return ok();
}

Result<std::string> Parser::expect_name(std::string_view what) {
    if (!is(Token::Kind::kName)) {
        return fail(fmt::format("expected the name of {}, found {}", what, here()));
    }
    std::string name = now().text;
    step();
    return name;
}

Status Parser::check_depth() const {
    return depth_ <= kMaxDepth ? ok() : Status(fail(fmt::format("nested deeper than {} levels", kMaxDepth)));
}

Result<Body> Parser::body(std::initializer_list<std::string_view> ends) {
    const Level level(&depth_);
    FORESAY_CHECK_OK(check_depth());
    Body statements;
    while (!is(Token::Kind::kEnd)) {
        if (is(Token::Kind::kTagBegin) && next().kind == Token::Kind::kName &&
            std::find(ends.begin(), ends.end(), next().text) != ends.end()) {
            step();
            return statements;
        }
        FORESAY_TRY(std::unique_ptr<Stmt> stmt, statement());
        statements.push_back(std::move(stmt));
    }
    if (ends.size() > 0) {
        return fail(fmt::format("'{{% {} %}}' isn't closed", open_tag_));
    }
    return statements;
}

Result<Body> Parser::body_and_end(std::string_view end) {
    FORESAY_TRY(Body statements, body({end}));
    step();
    // Jinja2 allows a name behind endmacro and its kin; chat templates don't use it.
    FORESAY_CHECK_OK(expect_tag_end());
    return statements;
}

Result<std::unique_ptr<Stmt>> Parser::statement() {
    auto stmt = std::make_unique<Stmt>();
    stmt->position = now().position;
    if (is(Token::Kind::kText)) {
        stmt->kind = Stmt::Kind::kText;
        stmt->text = std::move(tokens_[at_].text);
        step();
        return stmt;
    }
    if (is(Token::Kind::kOutputBegin)) {
        step();
        stmt->kind = Stmt::Kind::kOutput;
        FORESAY_TRY(stmt->expr, tuple());
        if (!is(Token::Kind::kOutputEnd)) {
            return fail(fmt::format("expected '}}}}', found {}", here()));
        }
        step();
        return stmt;
    }
    step();
    FORESAY_TRY(const std::string tag, expect_name("a tag"));
    using Handler = Status (Parser::*)(Stmt*);
    static constexpr std::pair<std::string_view, Handler> kHandlers[] = {
        {"if", &Parser::if_statement},     {"for", &Parser::for_statement},
        {"set", &Parser::set_statement},   {"macro", &Parser::macro_statement},
        {"call", &Parser::call_statement}, {"filter", &Parser::filter_statement},
        {"with", &Parser::with_statement}, {"generation", &Parser::generation_statement}};
    for (const auto& [name, handler] : kHandlers) {
        if (tag == name && (tag != "generation" || options_.generation_tag)) {
            const std::string outer = std::exchange(open_tag_, tag);
            FORESAY_CHECK_OK((this->*handler)(stmt.get()));
            open_tag_ = outer;
            return stmt;
        }
    }
    if (tag == "break" || tag == "continue") {
        if (loops_ == 0) {
            return fail_at(stmt->position, fmt::format("'{}' outside of a loop", tag));
        }
        stmt->kind = tag == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue;
        FORESAY_CHECK_OK(expect_tag_end());
        return stmt;
    }
    static constexpr std::array<std::string_view, 10> kKnown = {
        "include", "import", "from", "extends", "block", "do", "autoescape", "trans", "debug", "generation"};
    if (std::find(kKnown.begin(), kKnown.end(), tag) != kKnown.end()) {
        return error(Code::kUnsupported, fmt::format("the tag '{}' isn't supported", tag), to_string(stmt->position),
                     "give a template without it by --chat-template-file");
    }
    return fail_at(stmt->position, open_tag_.empty()
                                       ? fmt::format("unknown tag '{}'", tag)
                                       : fmt::format("unknown tag '{}' inside '{{% {} %}}'", tag, open_tag_));
}

Status Parser::if_statement(Stmt* stmt) {
    const size_t unknown_before = unknown_.size();
    stmt->kind = Stmt::Kind::kIf;
    bool has_else = false;
    while (true) {
        if (!has_else) {
            FORESAY_TRY(ExprPtr condition, tuple(false));
            stmt->conditions.push_back(std::move(condition));
        }
        FORESAY_CHECK_OK(expect_tag_end());
        FORESAY_TRY(Body statements, has_else ? body({"endif"}) : body({"elif", "else", "endif"}));
        stmt->bodies.push_back(std::move(statements));
        const std::string end = now().text;
        step();
        if (end == "endif") {
            unknown_.resize(unknown_before);
            return expect_tag_end();
        }
        has_else = end == "else";
    }
}

Status Parser::for_statement(Stmt* stmt) {
    stmt->kind = Stmt::Kind::kFor;
    FORESAY_TRY(stmt->target, target(false));
    if (!take_name("in")) {
        return fail(fmt::format("expected 'in', found {}", here()));
    }
    FORESAY_TRY(stmt->expr, tuple(false));
    if (take_name("if")) {
        FORESAY_TRY(ExprPtr condition, expression());
        stmt->conditions.push_back(std::move(condition));
    }
    if (is_name("recursive")) {
        return error(Code::kUnsupported, "recursive loops aren't supported", to_string(now().position));
    }
    FORESAY_CHECK_OK(expect_tag_end());
    ++loops_;
    FORESAY_TRY(Body loop_body, body({"else", "endfor"}));
    --loops_;
    stmt->bodies.push_back(std::move(loop_body));
    stmt->bodies.emplace_back();
    if (take_name("else")) {
        FORESAY_CHECK_OK(expect_tag_end());
        FORESAY_TRY(stmt->bodies[1], body({"endfor"}));
    }
    step();
    return expect_tag_end();
}

Result<Target> Parser::single_target(bool with_attribute) {
    if (take_operator("(")) {
        FORESAY_TRY(Target inner, target(with_attribute));
        FORESAY_CHECK_OK(expect_operator(")"));
        return inner;
    }
    Target target;
    target.position = now().position;
    FORESAY_TRY(target.name, expect_name("a variable"));
    static constexpr std::array<std::string_view, 6> kLiterals = {"true", "True", "false", "False", "none", "None"};
    if (std::find(kLiterals.begin(), kLiterals.end(), target.name) != kLiterals.end()) {
        return fail_at(target.position, fmt::format("can't assign to '{}'", target.name));
    }
    if (with_attribute && take_operator(".")) {
        FORESAY_TRY(target.attribute, expect_name("an attribute"));
    }
    return target;
}

Result<Target> Parser::target(bool with_attribute) {
    const Level level(&depth_);
    FORESAY_CHECK_OK(check_depth());
    FORESAY_TRY(Target first, single_target(with_attribute));
    if (!is_operator(",")) {
        return first;
    }
    Target tuple;
    tuple.position = first.position;
    tuple.targets.push_back(std::move(first));
    while (take_operator(",")) {
        if (is_name("in") || is_operator("=") || is_operator(")")) {
            break;
        }
        FORESAY_TRY(Target item, single_target(with_attribute));
        tuple.targets.push_back(std::move(item));
    }
    return tuple;
}

Status Parser::set_statement(Stmt* stmt) {
    FORESAY_TRY(stmt->target, target(true));
    if (take_operator("=")) {
        stmt->kind = Stmt::Kind::kSet;
        FORESAY_TRY(stmt->expr, tuple());
        return expect_tag_end();
    }
    stmt->kind = Stmt::Kind::kSetBlock;
    if (is_operator("|")) {
        ExprPtr text = make(Expr::Kind::kName, now().position);
        text->name = kBlockText;
        FORESAY_TRY(stmt->expr, filters(std::move(text)));
    }
    FORESAY_CHECK_OK(expect_tag_end());
    FORESAY_TRY(Body statements, body_and_end("endset"));
    stmt->bodies.push_back(std::move(statements));
    return ok();
}

Status Parser::parameters(Macro* macro) {
    FORESAY_CHECK_OK(expect_operator("("));
    while (!is_operator(")")) {
        Parameter parameter;
        FORESAY_TRY(parameter.name, expect_name("a parameter"));
        if (take_operator("=")) {
            FORESAY_TRY(parameter.fallback, expression());
        } else if (!macro->parameters.empty() && macro->parameters.back().fallback != nullptr) {
            return fail("a parameter without default stands behind one with a default");
        }
        macro->parameters.push_back(std::move(parameter));
        if (!take_operator(",")) {
            break;
        }
    }
    return expect_operator(")");
}

Status Parser::macro_statement(Stmt* stmt) {
    stmt->kind = Stmt::Kind::kMacro;
    stmt->macro = std::make_unique<Macro>();
    FORESAY_TRY(stmt->macro->name, expect_name("a macro"));
    FORESAY_CHECK_OK(parameters(stmt->macro.get()));
    FORESAY_CHECK_OK(expect_tag_end());
    const int outer_loops = std::exchange(loops_, 0);
    macros_.push_back(stmt->macro.get());
    FORESAY_TRY(stmt->macro->body, body_and_end("endmacro"));
    macros_.pop_back();
    loops_ = outer_loops;
    return ok();
}

Status Parser::call_statement(Stmt* stmt) {
    stmt->kind = Stmt::Kind::kCall;
    stmt->macro = std::make_unique<Macro>();
    stmt->macro->name = "caller";
    if (is_operator("(")) {
        FORESAY_CHECK_OK(parameters(stmt->macro.get()));
    }
    FORESAY_TRY(stmt->expr, expression());
    if (stmt->expr->kind != Expr::Kind::kCall) {
        return fail_at(stmt->position, "'call' needs the call of a macro");
    }
    FORESAY_CHECK_OK(expect_tag_end());
    const int outer_loops = std::exchange(loops_, 0);
    FORESAY_TRY(stmt->macro->body, body_and_end("endcall"));
    loops_ = outer_loops;
    return ok();
}

Status Parser::filter_statement(Stmt* stmt) {
    stmt->kind = Stmt::Kind::kFilterBlock;
    ExprPtr text = make(Expr::Kind::kName, now().position);
    text->name = kBlockText;
    FORESAY_TRY(stmt->expr, filter(std::move(text)));
    FORESAY_TRY(stmt->expr, filters(std::move(stmt->expr)));
    FORESAY_CHECK_OK(expect_tag_end());
    FORESAY_TRY(Body statements, body_and_end("endfilter"));
    stmt->bodies.push_back(std::move(statements));
    return ok();
}

Status Parser::with_statement(Stmt* stmt) {
    stmt->kind = Stmt::Kind::kWith;
    while (!is(Token::Kind::kTagEnd)) {
        FORESAY_TRY(Target name, single_target(false));
        FORESAY_CHECK_OK(expect_operator("="));
        FORESAY_TRY(ExprPtr value, expression());
        stmt->target.targets.push_back(std::move(name));
        stmt->values.push_back(std::move(value));
        if (!take_operator(",")) {
            break;
        }
    }
    FORESAY_CHECK_OK(expect_tag_end());
    FORESAY_TRY(Body statements, body_and_end("endwith"));
    stmt->bodies.push_back(std::move(statements));
    return ok();
}

Status Parser::generation_statement(Stmt* stmt) {
    // Its contents in a scope of their own, which is what a `with` without variables is.
    stmt->kind = Stmt::Kind::kWith;
    FORESAY_CHECK_OK(expect_tag_end());
    FORESAY_TRY(Body statements, body_and_end("endgeneration"));
    stmt->bodies.push_back(std::move(statements));
    return ok();
}

}  // namespace foresay::jinja
