// Expressions of the interpreter, and the calling of macros.
#include <fmt/format.h>

#include <utility>

#include "chat/jinja/interpreter.h"

namespace foresay::jinja {

Result<Value> Interpreter::evaluate(const Expr& expr) {
    if (expr.kind == Expr::Kind::kConstant) {
        return expr.value;
    }
    if (depth_ >= kMaxDepth) {
        return too_deep().error();
    }
    ++depth_;
    Result<Value> value = evaluate_kind(expr);
    --depth_;
    if (!value.has_value() && value.error().where.empty()) {
        value.error().where = to_string(expr.position);
    }
    return value;
}

Result<Value> Interpreter::evaluate_kind(const Expr& expr) {
    FORESAY_CHECK_OK(render_.charge(1));
    switch (expr.kind) {
        case Expr::Kind::kConstant:
            return expr.value;
        case Expr::Kind::kName:
            return name(expr);
        case Expr::Kind::kList:
        case Expr::Kind::kTuple:
            return sequence(expr);
        case Expr::Kind::kDict:
            return dict(expr);
        case Expr::Kind::kAttribute: {
            FORESAY_TRY(const Value object, evaluate(*expr.items[0]));
            return render_.attribute(object, expr.name);
        }
        case Expr::Kind::kItem: {
            FORESAY_TRY(const Value object, evaluate(*expr.items[0]));
            FORESAY_TRY(const Value key, evaluate(*expr.items[1]));
            return render_.item(object, key);
        }
        case Expr::Kind::kSlice:
            return slice(expr);
        case Expr::Kind::kCall:
            return call(expr, nullptr);
        case Expr::Kind::kFilter:
            return filter(expr);
        case Expr::Kind::kTest:
            return test(expr);
        case Expr::Kind::kNot: {
            FORESAY_TRY(const Value value, evaluate(*expr.items[0]));
            return Value(!is_true(value));
        }
        case Expr::Kind::kNegative:
        case Expr::Kind::kPositive: {
            FORESAY_TRY(const Value value, evaluate(*expr.items[0]));
            if (!value.is_number()) {
                return value.is_undefined()
                           ? Render::undefined_error(value)
                           : type_error(fmt::format("bad operand type for unary {}: '{}'",
                                                    expr.kind == Expr::Kind::kNegative ? '-' : '+', type_name(value)));
            }
            if (value.kind() == Kind::kFloat && expr.kind == Expr::Kind::kNegative) {
                return Value(-value.as_float());  // 0 - 0.0 would lose the sign
            }
            return binary(render_, expr.kind == Expr::Kind::kNegative ? Operator::kSub : Operator::kAdd,
                          Value(int64_t{0}), value);
        }
        case Expr::Kind::kBinary: {
            FORESAY_TRY(const Value left, evaluate(*expr.items[0]));
            FORESAY_TRY(const Value right, evaluate(*expr.items[1]));
            return binary(render_, expr.operators[0], left, right);
        }
        case Expr::Kind::kCompare:
            return compare(expr);
        case Expr::Kind::kAnd:
        case Expr::Kind::kOr: {
            FORESAY_TRY(Value left, evaluate(*expr.items[0]));
            return is_true(left) == (expr.kind == Expr::Kind::kOr) ? Result<Value>(std::move(left))
                                                                   : evaluate(*expr.items[1]);
        }
        case Expr::Kind::kConcat:
            return concatenate(expr);
        case Expr::Kind::kConditional:
            return conditional(expr);
    }
    return Value();
}

Result<Value> Interpreter::name(const Expr& expr) {
    for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
        for (const auto& variable : scope->variables) {
            if (variable.first == expr.name) {
                return variable.second;
            }
        }
    }
    if (const Function function = find_global(expr.name); function != nullptr) {
        Callable callable;
        callable.name = expr.name;
        callable.function = function;
        return render_.callable(std::move(callable));
    }
    return Render::missing(fmt::format("'{}' is undefined", expr.name));
}

Result<Value> Interpreter::sequence(const Expr& expr) {
    std::vector<Value> items;
    items.reserve(expr.items.size());
    for (const ExprPtr& item : expr.items) {
        FORESAY_TRY(Value value, evaluate(*item));
        items.push_back(std::move(value));
    }
    return render_.list(std::move(items), expr.kind == Expr::Kind::kTuple ? List::Form::kTuple : List::Form::kList);
}

Result<Value> Interpreter::dict(const Expr& expr) {
    Entries entries;
    for (size_t i = 0; i + 1 < expr.items.size(); i += 2) {
        FORESAY_TRY(Value key, evaluate(*expr.items[i]));
        if (!is_hashable(key)) {
            return type_error(fmt::format("unhashable type: '{}'", type_name(key)));
        }
        FORESAY_TRY(Value value, evaluate(*expr.items[i + 1]));
        entries.emplace_back(std::move(key), std::move(value));
    }
    return render_.dict(std::move(entries));
}

Result<Value> Interpreter::slice(const Expr& expr) {
    FORESAY_TRY(const Value object, evaluate(*expr.items[0]));
    Value parts[3];
    for (size_t i = 0; i < 3; ++i) {
        if (expr.items[i + 1] != nullptr) {
            FORESAY_TRY(parts[i], evaluate(*expr.items[i + 1]));
        }
    }
    const auto part = [&](size_t i) { return expr.items[i + 1] != nullptr ? &parts[i] : nullptr; };
    return slice_value(render_, object, part(0), part(1), part(2));
}

Result<Args> Interpreter::arguments(const Expr& expr) {
    Args args;
    args.positional.reserve(expr.items.size() - 1);
    for (size_t i = 1; i < expr.items.size(); ++i) {
        FORESAY_TRY(Value value, evaluate(*expr.items[i]));
        args.positional.push_back(std::move(value));
    }
    for (const auto& [name, argument] : expr.named) {
        FORESAY_TRY(Value value, evaluate(*argument));
        args.named.emplace_back(name, std::move(value));
    }
    return args;
}

Result<Value> Interpreter::call(const Expr& expr, const Value* caller) {
    FORESAY_TRY(const Value callee, evaluate(*expr.items[0]));
    FORESAY_TRY(Args args, arguments(expr));
    if (callee.is_undefined()) {
        return Render::undefined_error(callee);
    }
    if (callee.kind() != Kind::kCallable) {
        return type_error(fmt::format("'{}' object is not callable", type_name(callee)));
    }
    const Callable& callable = callee.as_callable();
    if (callable.macro != nullptr) {
        return call_macro(callable, std::move(args), caller);
    }
    if (caller != nullptr) {
        return type_error(fmt::format("{}() takes no caller", callable.name));
    }
    return callable.function(render_, callable.self, args);
}

Result<Value> Interpreter::call_macro(const Callable& callable, Args args, const Value* caller) {
    const Macro& macro = *callable.macro;
    auto scope = std::make_shared<Scope>();
    scope->parent = callable.scope;
    const size_t n_parameters = macro.parameters.size();
    const size_t n_taken = std::min(n_parameters, args.positional.size());
    std::vector<bool> given(n_parameters, false);
    for (size_t i = 0; i < n_taken; ++i) {
        scope->set(macro.parameters[i].name, std::move(args.positional[i]));
        given[i] = true;
    }
    if (args.positional.size() > n_parameters && !macro.uses_varargs) {
        return type_error(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, n_parameters));
    }
    Entries others;
    for (auto& [name, value] : args.named) {
        size_t i = 0;
        while (i < n_parameters && macro.parameters[i].name != name) {
            ++i;
        }
        if (i < n_parameters && !given[i]) {
            scope->set(macro.parameters[i].name, std::move(value));
            given[i] = true;
        } else if (i < n_parameters) {
            return type_error(fmt::format("macro '{}' got two values for '{}'", macro.name, name));
        } else if (name == "caller") {
            scope->set("caller", std::move(value));
        } else if (macro.uses_kwargs) {
            FORESAY_TRY(Value key, render_.text(name));
            others.emplace_back(std::move(key), std::move(value));
        } else {
            return type_error(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, name));
        }
    }
    if (macro.uses_varargs) {
        std::vector<Value> rest(std::make_move_iterator(args.positional.begin() + static_cast<std::ptrdiff_t>(n_taken)),
                                std::make_move_iterator(args.positional.end()));
        FORESAY_TRY(Value varargs, render_.list(std::move(rest), List::Form::kTuple));
        scope->set("varargs", std::move(varargs));
    }
    if (macro.uses_kwargs) {
        FORESAY_TRY(Value kwargs, render_.dict(std::move(others)));
        scope->set("kwargs", std::move(kwargs));
    }
    if (caller != nullptr) {
        if (!macro.uses_caller) {
            return type_error(fmt::format("macro '{}' was called with a block, which it doesn't use", macro.name));
        }
        scope->set("caller", *caller);
    } else if (macro.uses_caller && macro.name != "caller") {
        scope->set("caller", Render::missing("no caller defined"));
    }
    const std::shared_ptr<Scope> outer = std::exchange(scope_, scope);
    std::string text;
    std::string* const outer_out = std::exchange(out_, &text);
    Status status = ok();
    // Defaults may use the parameters before them.
    for (size_t i = 0; i < n_parameters && status.has_value(); ++i) {
        if (given[i]) {
            continue;
        }
        const Parameter& parameter = macro.parameters[i];
        Result<Value> fallback =
            parameter.fallback != nullptr
                ? evaluate(*parameter.fallback)
                : Result<Value>(Render::missing(fmt::format("parameter '{}' was not provided", parameter.name)));
        if (fallback.has_value()) {
            scope_->set(parameter.name, std::move(*fallback));
        } else {
            status = std::move(fallback).error();
        }
    }
    if (status.has_value()) {
        if (Result<Flow> flow = execute(macro.body); !flow.has_value()) {
            status = std::move(flow).error();
        }
    }
    out_ = outer_out;
    scope_ = outer;
    render_.meter.live_bytes -= text.size();
    FORESAY_CHECK_OK(std::move(status));
    return render_.text(std::move(text));
}

Result<Value> Interpreter::filter(const Expr& expr) {
    FORESAY_TRY(const Value value, evaluate(*expr.items[0]));
    if (expr.function == nullptr) {
        return error(Code::kUnsupported, fmt::format("there is no filter '{}'", expr.name));
    }
    FORESAY_TRY(const Args args, arguments(expr));
    return expr.function(render_, value, args);
}

Result<Value> Interpreter::test(const Expr& expr) {
    FORESAY_TRY(const Value value, evaluate(*expr.items[0]));
    if (expr.test == nullptr) {
        return error(Code::kUnsupported, fmt::format("there is no test '{}'", expr.name));
    }
    FORESAY_TRY(const Args args, arguments(expr));
    FORESAY_TRY(const bool holds, expr.test(render_, value, args));
    return Value(holds);
}

Result<Value> Interpreter::compare(const Expr& expr) {
    FORESAY_TRY(Value left, evaluate(*expr.items[0]));
    for (size_t i = 0; i < expr.operators.size(); ++i) {
        FORESAY_TRY(Value right, evaluate(*expr.items[i + 1]));
        FORESAY_TRY(const bool holds, compare_values(render_, expr.operators[i], left, right));
        if (!holds) {
            return Value(false);
        }
        left = std::move(right);
    }
    return Value(true);
}

Result<Value> Interpreter::concatenate(const Expr& expr) {
    std::string text;
    for (const ExprPtr& item : expr.items) {
        FORESAY_TRY(const Value value, evaluate(*item));
        FORESAY_TRY(const std::string part, render_.str(value));
        FORESAY_CHECK_OK(render_.check_text(text.size() + part.size()));
        text += part;
    }
    return render_.text(std::move(text));
}

Result<Value> Interpreter::conditional(const Expr& expr) {
    FORESAY_TRY(const Value condition, evaluate(*expr.items[1]));
    if (is_true(condition)) {
        return evaluate(*expr.items[0]);
    }
    return expr.items[2] != nullptr
               ? evaluate(*expr.items[2])
               : Result<Value>(Render::missing("the inline if-expression has no else, and its condition is false"));
}

}  // namespace foresay::jinja
