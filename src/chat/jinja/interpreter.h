// Walks the tree of a template. One render per object. Internal to jinja.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/render.h"

namespace foresay::jinja {

/// Variables of a template, a loop's pass, a macro or a block. Names belong to the tree or to the variables given.
struct Scope {
    std::shared_ptr<Scope> parent;
    std::vector<std::pair<std::string_view, Value>> variables;

    void set(std::string_view name, Value value);
};

class Interpreter {
  public:
    explicit Interpreter(const RenderOptions& options) : render_(options) {}

    ~Interpreter();
    Interpreter(const Interpreter&) = delete;
    Interpreter& operator=(const Interpreter&) = delete;
    Interpreter(Interpreter&&) = delete;
    Interpreter& operator=(Interpreter&&) = delete;

    /// body and variables (an object) must outlive the call.
    Result<std::string> run(const Body& body, const nlohmann::ordered_json& variables);

  private:
    /// Deepest recursion of run-time: macros that call each other, through the nesting of their bodies.
    static constexpr int kMaxDepth = 600;
    /// Steps of defining a macro: its scope stays until the end of the render.
    static constexpr size_t kMacroCost = 32;

    enum class Flow : uint8_t { kNext, kBreak, kContinue };

    // Statements.
    Result<Flow> execute(const Body& body);
    Result<Flow> execute_one(const Stmt& stmt);
    Result<Flow> if_statement(const Stmt& stmt);
    Result<Flow> for_statement(const Stmt& stmt);
    Result<Flow> with_statement(const Stmt& stmt);
    Status set_statement(const Stmt& stmt);
    Status set_block(const Stmt& stmt);
    Status filter_block(const Stmt& stmt);
    Status call_statement(const Stmt& stmt);
    Status output(const Value& value);
    Status append(std::string_view text);
    Status assign(const Target& target, Value value);
    /// What a body writes, as a string, in a scope of its own.
    Result<Value> capture(const Body& body);
    Result<std::shared_ptr<const List>> filtered(const Stmt& stmt, std::shared_ptr<const List> items);
    Value define(const Macro& macro);

    // Expressions.
    Result<Value> evaluate(const Expr& expr);
    Result<Value> evaluate_kind(const Expr& expr);
    Result<Value> name(const Expr& expr);
    Result<Value> sequence(const Expr& expr);
    Result<Value> dict(const Expr& expr);
    Result<Value> slice(const Expr& expr);
    Result<Value> call(const Expr& expr, const Value* caller);
    Result<Value> call_macro(const Callable& callable, Args args, const Value* caller);
    Result<Value> filter(const Expr& expr);
    Result<Value> test(const Expr& expr);
    Result<Value> compare(const Expr& expr);
    Result<Value> concatenate(const Expr& expr);
    Result<Value> conditional(const Expr& expr);
    Result<Args> arguments(const Expr& expr);
    Status too_deep() const;

    Render render_;
    std::shared_ptr<Scope> scope_;
    /// Scopes that macros keep: freed at the end, as a macro in its own scope is a cycle.
    std::vector<std::shared_ptr<Scope>> kept_;
    std::string text_;            ///< what has been printed outside macros
    std::string* out_ = nullptr;  ///< where output goes now
    int depth_ = 0;
};

/// a op b, for all but comparisons. Errors: types that don't fit, division by zero, overflow.
Result<Value> binary(Render& render, Operator op, const Value& a, const Value& b);
/// a op b as a truth value.
Result<bool> compare_values(Render& render, Operator op, const Value& a, const Value& b);
/// value[from:to:step]; null parts are left out.
Result<Value> slice_value(Render& render, const Value& value, const Value* from, const Value* to, const Value* step);

}  // namespace foresay::jinja
