// The parser's two halves share this: expressions (parse_expression.cpp) and statements (parser.cpp). Internal to
// jinja.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/ast.h"
#include "chat/jinja/lexer.h"
#include "chat/jinja/template.h"

namespace foresay::jinja {

/// Recursive descent over the tokens, in jinja2's grammar. One use.
class Parser {
  public:
    Parser(std::vector<Token> tokens, const ParseOptions& options) : options_(options), tokens_(std::move(tokens)) {}

    Result<Body> run();

  private:
    /// Deepest nesting of expressions and of statements: the parser, the interpreter and the tree's end recurse over
    /// it.
    static constexpr int kMaxDepth = 150;

    /// Counts one level of recursion while it lives.
    class Level {
      public:
        explicit Level(int* depth) : depth_(depth) { ++*depth_; }

        ~Level() { --*depth_; }

        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;
        Level(Level&&) = delete;
        Level& operator=(Level&&) = delete;

      private:
        int* depth_;
    };

    /// An unknown filter or test: an error at load, unless a condition may keep it from running (as in jinja2).
    struct Unknown {
        std::string message;
        Position position;
    };

    const Token& now() const { return tokens_[at_]; }

    const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }

    void step() { at_ = std::min(at_ + 1, tokens_.size() - 1); }

    bool is(Token::Kind kind) const { return now().kind == kind; }

    bool is_operator(std::string_view op) const { return is(Token::Kind::kOperator) && now().text == op; }

    bool is_name(std::string_view name) const { return is(Token::Kind::kName) && now().text == name; }

    bool take_operator(std::string_view op);
    bool take_name(std::string_view name);
    Status expect_operator(std::string_view op);
    Status expect_tag_end();
    Result<std::string> expect_name(std::string_view what);
    Error fail(std::string message) const;
    Error fail_at(Position position, std::string message) const;
    /// "'x'", "the end of the tag": what stands here, for messages.
    std::string here() const;
    Status check_depth() const;

    // Expressions.
    Result<ExprPtr> expression(bool with_condition = true);
    Result<ExprPtr> conditional();
    Result<ExprPtr> either();
    Result<ExprPtr> both();
    Result<ExprPtr> negation();
    Result<ExprPtr> comparison();
    Result<ExprPtr> sum();
    Result<ExprPtr> concatenation();
    Result<ExprPtr> product();
    Result<ExprPtr> power();
    Result<ExprPtr> unary(bool with_filters);
    Result<ExprPtr> primary();
    Result<ExprPtr> postfix(ExprPtr inner);
    Result<ExprPtr> filters(ExprPtr inner);
    Result<ExprPtr> filter(ExprPtr inner);
    Result<ExprPtr> test(ExprPtr inner);
    Result<ExprPtr> subscript(ExprPtr inner);
    Result<ExprPtr> call(ExprPtr inner);
    Status arguments(Expr* into);
    Result<ExprPtr> parenthesised();
    Result<ExprPtr> list_display();
    Result<ExprPtr> dict_display();
    /// One expression, or several with commas between them, which make a tuple.
    Result<ExprPtr> tuple(bool with_condition = true);
    ExprPtr make(Expr::Kind kind, Position position) const;
    ExprPtr make(Expr::Kind kind, Position position, ExprPtr a, ExprPtr b = nullptr) const;
    ExprPtr constant(Value value, Position position) const;
    /// Sets the depth. Errors: too deep.
    Result<ExprPtr> done(ExprPtr expr) const;

    // Statements. Each starts behind the tag's name.
    /// Statements up to a tag with one of these names, whose name is then the current token; none: up to the end.
    Result<Body> body(std::initializer_list<std::string_view> ends);
    Result<Body> body_and_end(std::string_view end);
    Result<std::unique_ptr<Stmt>> statement();
    Status if_statement(Stmt* stmt);
    Status for_statement(Stmt* stmt);
    Status set_statement(Stmt* stmt);
    Status macro_statement(Stmt* stmt);
    Status call_statement(Stmt* stmt);
    Status filter_statement(Stmt* stmt);
    Status with_statement(Stmt* stmt);
    Status generation_statement(Stmt* stmt);
    Status parameters(Macro* macro);
    Result<Target> target(bool with_attribute);
    Result<Target> single_target(bool with_attribute);

    ParseOptions options_;
    std::vector<Token> tokens_;
    size_t at_ = 0;
    int depth_ = 0;
    int loops_ = 0;  ///< open for statements of the present macro: break and continue need one
    std::vector<Macro*> macros_;
    std::vector<Unknown> unknown_;
    std::string open_tag_;  ///< the innermost block that waits for its end, for messages
};

}  // namespace foresay::jinja
