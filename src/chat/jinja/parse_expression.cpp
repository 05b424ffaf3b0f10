#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "chat/jinja/parser_impl.h"

namespace foresay::jinja {

ExprPtr Parser::make(Expr::Kind kind, Position position) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->position = position;
    return expr;
}

ExprPtr Parser::make(Expr::Kind kind, Position position, ExprPtr a, ExprPtr b) const {
    ExprPtr expr = make(kind, position);
    expr->items.push_back(std::move(a));
    if (b != nullptr) {
        expr->items.push_back(std::move(b));
    }
    return expr;
}

ExprPtr Parser::constant(Value value, Position position) const {
    ExprPtr expr = make(Expr::Kind::kConstant, position);
    expr->value = std::move(value);
    return expr;
}

Result<ExprPtr> Parser::done(ExprPtr expr) const {
    int deepest = 0;
    for (const ExprPtr& item : expr->items) {
        deepest = std::max(deepest, item == nullptr ? 0 : item->depth);
    }
    for (const auto& argument : expr->named) {
        deepest = std::max(deepest, argument.second->depth);
    }
    expr->depth = deepest + 1;
    if (expr->depth > kMaxDepth) {
        return fail_at(expr->position, fmt::format("an expression is nested deeper than {} levels", kMaxDepth));
    }
    return expr;
}

Result<ExprPtr> Parser::expression(bool with_condition) {
    const Level level(&depth_);
    FORESAY_CHECK_OK(check_depth());
    return with_condition ? conditional() : either();
}

Result<ExprPtr> Parser::tuple(bool with_condition) {
    const Position position = now().position;
    FORESAY_TRY(ExprPtr first, expression(with_condition));
    if (!is_operator(",")) {
        return first;
    }
    ExprPtr expr = make(Expr::Kind::kTuple, position, std::move(first));
    while (take_operator(",")) {
        // The tuple may end in a comma.
        if (is(Token::Kind::kTagEnd) || is(Token::Kind::kOutputEnd) || is_operator(")") || is_name("if")) {
            break;
        }
        FORESAY_TRY(ExprPtr item, expression(with_condition));
        expr->items.push_back(std::move(item));
    }
    return done(std::move(expr));
}

Result<ExprPtr> Parser::conditional() {
    const size_t unknown_before = unknown_.size();
    FORESAY_TRY(ExprPtr expr, either());
    while (is_name("if")) {
        const Position position = now().position;
        step();
        FORESAY_TRY(ExprPtr condition, either());
        expr = make(Expr::Kind::kConditional, position, std::move(expr), std::move(condition));
        ExprPtr other;
        if (take_name("else")) {
            FORESAY_TRY(other, expression());
        }
        expr->items.push_back(std::move(other));
        FORESAY_TRY(expr, done(std::move(expr)));
        unknown_.resize(unknown_before);
    }
    return expr;
}

Result<ExprPtr> Parser::either() {
    FORESAY_TRY(ExprPtr expr, both());
    while (is_name("or")) {
        const Position position = now().position;
        step();
        FORESAY_TRY(ExprPtr right, both());
        FORESAY_TRY(expr, done(make(Expr::Kind::kOr, position, std::move(expr), std::move(right))));
    }
    return expr;
}

Result<ExprPtr> Parser::both() {
    FORESAY_TRY(ExprPtr expr, negation());
    while (is_name("and")) {
        const Position position = now().position;
        step();
        FORESAY_TRY(ExprPtr right, negation());
        FORESAY_TRY(expr, done(make(Expr::Kind::kAnd, position, std::move(expr), std::move(right))));
    }
    return expr;
}

Result<ExprPtr> Parser::negation() {
    if (!is_name("not")) {
        return comparison();
    }
    const Level level(&depth_);
    FORESAY_CHECK_OK(check_depth());
    const Position position = now().position;
    step();
    FORESAY_TRY(ExprPtr inner, negation());
    return done(make(Expr::Kind::kNot, position, std::move(inner)));
}

Result<ExprPtr> Parser::comparison() {
    static constexpr std::pair<std::string_view, Operator> kOperators[] = {
        {"==", Operator::kEq}, {"!=", Operator::kNe}, {"<", Operator::kLt},
        {"<=", Operator::kLe}, {">", Operator::kGt},  {">=", Operator::kGe}};
    const Position position = now().position;
    FORESAY_TRY(ExprPtr first, sum());
    ExprPtr expr;
    while (true) {
        const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                         [&](const auto& op) { return is_operator(op.first); });
        Operator op = Operator::kIn;
        if (found != std::end(kOperators)) {
            op = found->second;
        } else if (is_name("not") && next().kind == Token::Kind::kName && next().text == "in") {
            op = Operator::kNotIn;
            step();
        } else if (!is_name("in")) {
            break;
        }
        step();
        FORESAY_TRY(ExprPtr right, sum());
        if (expr == nullptr) {
            expr = make(Expr::Kind::kCompare, position, std::move(first));
        }
        expr->operators.push_back(op);
        expr->items.push_back(std::move(right));
    }
    return expr == nullptr ? std::move(first) : done(std::move(expr));
}

Result<ExprPtr> Parser::sum() {
    FORESAY_TRY(ExprPtr expr, concatenation());
    while (is_operator("+") || is_operator("-")) {
        const Operator op = is_operator("+") ? Operator::kAdd : Operator::kSub;
        const Position position = now().position;
        step();
        FORESAY_TRY(ExprPtr right, concatenation());
        expr = make(Expr::Kind::kBinary, position, std::move(expr), std::move(right));
        expr->operators.push_back(op);
        FORESAY_TRY(expr, done(std::move(expr)));
    }
    return expr;
}

Result<ExprPtr> Parser::concatenation() {
    const Position position = now().position;
    FORESAY_TRY(ExprPtr first, product());
    if (!is_operator("~")) {
        return first;
    }
    ExprPtr expr = make(Expr::Kind::kConcat, position, std::move(first));
    while (take_operator("~")) {
        FORESAY_TRY(ExprPtr item, product());
        expr->items.push_back(std::move(item));
    }
    return done(std::move(expr));
}

Result<ExprPtr> Parser::product() {
    static constexpr std::pair<std::string_view, Operator> kOperators[] = {
        {"*", Operator::kMul}, {"/", Operator::kDiv}, {"//", Operator::kFloorDiv}, {"%", Operator::kMod}};
    FORESAY_TRY(ExprPtr expr, power());
    while (true) {
        const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                         [&](const auto& op) { return is_operator(op.first); });
        if (found == std::end(kOperators)) {
            return expr;
        }
        const Position position = now().position;
        step();
        FORESAY_TRY(ExprPtr right, power());
        expr = make(Expr::Kind::kBinary, position, std::move(expr), std::move(right));
        expr->operators.push_back(found->second);
        FORESAY_TRY(expr, done(std::move(expr)));
    }
}

Result<ExprPtr> Parser::power() {
    FORESAY_TRY(ExprPtr expr, unary(true));
    while (is_operator("**")) {
        const Position position = now().position;
        step();
        FORESAY_TRY(ExprPtr right, unary(true));
        expr = make(Expr::Kind::kBinary, position, std::move(expr), std::move(right));
        expr->operators.push_back(Operator::kPow);
        FORESAY_TRY(expr, done(std::move(expr)));
    }
    return expr;
}

Result<ExprPtr> Parser::unary(bool with_filters) {
    const Level level(&depth_);
    FORESAY_CHECK_OK(check_depth());
    const Position position = now().position;
    ExprPtr expr;
    if (is_operator("-") || is_operator("+")) {
        const Expr::Kind kind = is_operator("-") ? Expr::Kind::kNegative : Expr::Kind::kPositive;
        step();
        FORESAY_TRY(ExprPtr inner, unary(false));
        FORESAY_TRY(expr, done(make(kind, position, std::move(inner))));
    } else {
        FORESAY_TRY(expr, primary());
    }
    FORESAY_TRY(expr, postfix(std::move(expr)));
    return with_filters ? filters(std::move(expr)) : Result<ExprPtr>(std::move(expr));
}

Result<ExprPtr> Parser::primary() {
    const Token& token = now();
    const Position position = token.position;
    switch (token.kind) {
        case Token::Kind::kName: {
            const std::string name = token.text;
            step();
            if (name == "true" || name == "True" || name == "false" || name == "False") {
                return constant(Value(name == "true" || name == "True"), position);
            }
            if (name == "none" || name == "None") {
                return constant(Value(Value::None{}), position);
            }
            for (Macro* macro : macros_) {
                macro->uses_varargs = macro->uses_varargs || name == "varargs";
                macro->uses_kwargs = macro->uses_kwargs || name == "kwargs";
                macro->uses_caller = macro->uses_caller || name == "caller";
            }
            ExprPtr expr = make(Expr::Kind::kName, position);
            expr->name = name;
            return expr;
        }
        case Token::Kind::kString: {
            std::string text;
            while (is(Token::Kind::kString)) {
                text += now().text;  // neighbours are one string
                step();
            }
            return constant(Value::constant(std::move(text)), position);
        }
        case Token::Kind::kInteger: {
            int64_t value = 0;
            const std::string& text = token.text;
            if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
                return fail(fmt::format("the integer {} is out of range", text));
            }
            step();
            return constant(Value(value), position);
        }
        case Token::Kind::kFloat: {
            double value = 0;
            const std::string& text = token.text;
            if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
                return fail(fmt::format("the number {} is out of range", text));
            }
            step();
            return constant(Value(value), position);
        }
        default:
            break;
    }
    if (is_operator("(")) {
        return parenthesised();
    }
    if (is_operator("[")) {
        return list_display();
    }
    if (is_operator("{")) {
        return dict_display();
    }
    return fail(fmt::format("expected an expression, found {}", here()));
}

Result<ExprPtr> Parser::parenthesised() {
    const Position position = now().position;
    step();
    if (take_operator(")")) {
        return make(Expr::Kind::kTuple, position);
    }
    FORESAY_TRY(ExprPtr expr, tuple());
    FORESAY_CHECK_OK(expect_operator(")"));
    return expr;
}

Result<ExprPtr> Parser::list_display() {
    ExprPtr expr = make(Expr::Kind::kList, now().position);
    step();
    while (!is_operator("]")) {
        FORESAY_TRY(ExprPtr item, expression());
        expr->items.push_back(std::move(item));
        if (!take_operator(",")) {
            break;
        }
    }
    FORESAY_CHECK_OK(expect_operator("]"));
    return done(std::move(expr));
}

Result<ExprPtr> Parser::dict_display() {
    ExprPtr expr = make(Expr::Kind::kDict, now().position);
    step();
    while (!is_operator("}")) {
        FORESAY_TRY(ExprPtr key, expression());
        FORESAY_CHECK_OK(expect_operator(":"));
        FORESAY_TRY(ExprPtr value, expression());
        expr->items.push_back(std::move(key));
        expr->items.push_back(std::move(value));
        if (!take_operator(",")) {
            break;
        }
    }
    FORESAY_CHECK_OK(expect_operator("}"));
    return done(std::move(expr));
}

Result<ExprPtr> Parser::postfix(ExprPtr inner) {
    while (true) {
        if (is_operator(".")) {
            const Position position = now().position;
            step();
            if (is(Token::Kind::kInteger)) {
                FORESAY_TRY(ExprPtr index, primary());
                inner = make(Expr::Kind::kItem, position, std::move(inner), std::move(index));
            } else {
                inner = make(Expr::Kind::kAttribute, position, std::move(inner));
                FORESAY_TRY(inner->name, expect_name("an attribute"));
            }
            FORESAY_TRY(inner, done(std::move(inner)));
        } else if (is_operator("[")) {
            FORESAY_TRY(inner, subscript(std::move(inner)));
        } else if (is_operator("(")) {
            FORESAY_TRY(inner, call(std::move(inner)));
        } else {
            return inner;
        }
    }
}

Result<ExprPtr> Parser::subscript(ExprPtr inner) {
    const Position position = now().position;
    step();
    ExprPtr parts[3];
    size_t n_colons = 0;
    while (!is_operator("]")) {
        if (take_operator(":")) {
            if (++n_colons > 2) {
                return fail("a slice has at most two colons");
            }
            continue;
        }
        if (parts[n_colons] != nullptr) {
            return fail(fmt::format("expected ']', found {}", here()));
        }
        FORESAY_TRY(parts[n_colons], n_colons == 0 ? tuple() : expression());
    }
    if (n_colons == 0 && parts[0] == nullptr) {
        return fail("expected an expression, found ']'");
    }
    step();
    ExprPtr expr = make(n_colons == 0 ? Expr::Kind::kItem : Expr::Kind::kSlice, position, std::move(inner));
    for (size_t i = 0; i < (n_colons == 0 ? 1 : 3); ++i) {
        expr->items.push_back(std::move(parts[i]));
    }
    return done(std::move(expr));
}

Status Parser::arguments(Expr* into) {
    FORESAY_CHECK_OK(expect_operator("("));
    while (!is_operator(")")) {
        if (is_operator("*") || is_operator("**")) {
            return error(Code::kUnsupported, "'*' and '**' in a call aren't supported", to_string(now().position));
        }
        if (is(Token::Kind::kName) && next().kind == Token::Kind::kOperator && next().text == "=") {
            std::string name = now().text;
            step();
            step();
            FORESAY_TRY(ExprPtr value, expression());
            into->named.emplace_back(std::move(name), std::move(value));
        } else {
            if (!into->named.empty()) {
                return fail("a positional argument stands behind a named one");
            }
            FORESAY_TRY(ExprPtr value, expression());
            into->items.push_back(std::move(value));
        }
        if (!take_operator(",")) {
            break;
        }
    }
    return expect_operator(")");
}

Result<ExprPtr> Parser::call(ExprPtr inner) {
    ExprPtr expr = make(Expr::Kind::kCall, now().position, std::move(inner));
    FORESAY_CHECK_OK(arguments(expr.get()));
    return done(std::move(expr));
}

Result<ExprPtr> Parser::filters(ExprPtr inner) {
    while (true) {
        if (take_operator("|")) {
            FORESAY_TRY(inner, filter(std::move(inner)));
        } else if (take_name("is")) {
            FORESAY_TRY(inner, test(std::move(inner)));
        } else if (is_operator("(")) {
            FORESAY_TRY(inner, call(std::move(inner)));
        } else {
            return inner;
        }
    }
}

Result<ExprPtr> Parser::filter(ExprPtr inner) {
    ExprPtr expr = make(Expr::Kind::kFilter, now().position, std::move(inner));
    FORESAY_TRY(expr->name, expect_name("a filter"));
    while (take_operator(".")) {
        FORESAY_TRY(const std::string part, expect_name("a filter"));
        expr->name += "." + part;
    }
    expr->function = find_filter(expr->name);
    if (expr->function == nullptr) {
        unknown_.push_back({fmt::format("there is no filter '{}'", expr->name), expr->position});
    }
    if (is_operator("(")) {
        FORESAY_CHECK_OK(arguments(expr.get()));
    }
    return done(std::move(expr));
}

Result<ExprPtr> Parser::test(ExprPtr inner) {
    const bool negated = take_name("not");
    ExprPtr expr = make(Expr::Kind::kTest, now().position, std::move(inner));
    FORESAY_TRY(expr->name, expect_name("a test"));
    expr->test = find_test(expr->name);
    if (expr->test == nullptr) {
        unknown_.push_back({fmt::format("there is no test '{}'", expr->name), expr->position});
    }
    const bool starts_operand = is(Token::Kind::kString) || is(Token::Kind::kInteger) || is(Token::Kind::kFloat) ||
                                is_operator("[") || is_operator("{");
    const bool is_word = is(Token::Kind::kName) && !is_name("else") && !is_name("or") && !is_name("and") &&
                         !is_name("if") && !is_name("is") && !is_name("in") && !is_name("not");
    if (is_operator("(")) {
        FORESAY_CHECK_OK(arguments(expr.get()));
    } else if (starts_operand || is_word) {
        FORESAY_TRY(ExprPtr operand, primary());
        FORESAY_TRY(operand, postfix(std::move(operand)));
        expr->items.push_back(std::move(operand));
    }
    const Position position = expr->position;
    FORESAY_TRY(expr, done(std::move(expr)));
    return negated ? done(make(Expr::Kind::kNot, position, std::move(expr))) : Result<ExprPtr>(std::move(expr));
}

}  // namespace foresay::jinja
