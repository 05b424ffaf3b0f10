// Statements, and what a template is: see evaluate.cpp for expressions.
#include "chat/jinja/interpreter.h"

#include <fmt/format.h>

#include <utility>

#include "chat/jinja/parser.h"
#include "vocab/utf8.h"

namespace foresay::jinja {

struct Template::Impl {
    std::string source;
    Body body;
};

Template::Template(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

const std::string& Template::source() const {
    return impl_->source;
}

Result<Template> Template::parse(std::string_view source, const ParseOptions& options) {
    if (source.size() > Limits::kMaxSourceBytes) {
        return error(Code::kInvalidArgument,
                     fmt::format("has {} bytes, more than {}", source.size(), Limits::kMaxSourceBytes),
                     "chat template");
    }
    if (!vocab::is_valid_utf8(source)) {
        return error(Code::kInvalidArgument, "isn't valid UTF-8", "chat template");
    }
    auto impl = std::make_unique<Impl>();
    impl->source = std::string(source);
    FORESAY_TRY(impl->body, jinja::parse(source, options));
    return Template(std::move(impl));
}

Result<std::string> Template::render(const nlohmann::ordered_json& variables, const RenderOptions& options) const {
    if (!variables.is_object()) {
        return error(Code::kInvalidArgument, "the variables must be an object", "chat template");
    }
    return Interpreter(options).run(impl_->body, variables);
}

void Scope::set(std::string_view name, Value value) {
    for (auto& variable : variables) {
        if (variable.first == name) {
            variable.second = std::move(value);
            return;
        }
    }
    variables.emplace_back(name, std::move(value));
}

Interpreter::~Interpreter() {
    for (const auto& scope : kept_) {
        scope->variables.clear();
    }
}

Result<std::string> Interpreter::run(const Body& body, const nlohmann::ordered_json& variables) {
    scope_ = std::make_shared<Scope>();
    for (const auto& variable : variables.items()) {
        FORESAY_TRY(Value value, render_.from_json(variable.value()));
        scope_->variables.emplace_back(variable.key(), std::move(value));
    }
    // Templates set names without touching what they were given.
    auto own = std::make_shared<Scope>();
    own->parent = scope_;
    scope_ = std::move(own);
    out_ = &text_;
    FORESAY_CHECK_OK(execute(body));
    return std::move(text_);
}

Status Interpreter::too_deep() const {
    return error(Code::kCapacity, fmt::format("the template's macros are nested deeper than {} levels", kMaxDepth));
}

Result<Interpreter::Flow> Interpreter::execute(const Body& body) {
    if (depth_ >= kMaxDepth) {
        return too_deep().error();
    }
    ++depth_;
    Result<Flow> flow = Flow::kNext;
    for (const auto& stmt : body) {
        flow = execute_one(*stmt);
        if (!flow.has_value()) {
            if (flow.error().where.empty()) {
                flow.error().where = to_string(stmt->position);
            }
            break;
        }
        if (*flow != Flow::kNext) {
            break;
        }
    }
    --depth_;
    return flow;
}

Result<Interpreter::Flow> Interpreter::execute_one(const Stmt& stmt) {
    FORESAY_CHECK_OK(render_.charge(1));
    switch (stmt.kind) {
        case Stmt::Kind::kText:
            FORESAY_CHECK_OK(append(stmt.text));
            break;
        case Stmt::Kind::kOutput: {
            FORESAY_TRY(const Value value, evaluate(*stmt.expr));
            FORESAY_CHECK_OK(output(value));
            break;
        }
        case Stmt::Kind::kIf:
            return if_statement(stmt);
        case Stmt::Kind::kFor:
            return for_statement(stmt);
        case Stmt::Kind::kWith:
            return with_statement(stmt);
        case Stmt::Kind::kSet:
            FORESAY_CHECK_OK(set_statement(stmt));
            break;
        case Stmt::Kind::kSetBlock:
            FORESAY_CHECK_OK(set_block(stmt));
            break;
        case Stmt::Kind::kMacro:
            FORESAY_CHECK_OK(render_.charge(kMacroCost));
            scope_->set(stmt.macro->name, define(*stmt.macro));
            break;
        case Stmt::Kind::kCall:
            FORESAY_CHECK_OK(call_statement(stmt));
            break;
        case Stmt::Kind::kFilterBlock:
            FORESAY_CHECK_OK(filter_block(stmt));
            break;
        case Stmt::Kind::kBreak:
            return Flow::kBreak;
        case Stmt::Kind::kContinue:
            return Flow::kContinue;
    }
    return Flow::kNext;
}

Status Interpreter::append(std::string_view text) {
    FORESAY_CHECK_OK(render_.check_text(out_->size() + text.size()));
    FORESAY_CHECK_OK(render_.charge_text(text.size()));
    out_->append(text);
    render_.meter.live_bytes += text.size();  // taken off when the buffer becomes a value
    return render_.check_memory();
}

Status Interpreter::output(const Value& value) {
    if (value.is_text()) {
        return append(value.as_text());
    }
    FORESAY_TRY(const std::string text, render_.str(value));
    return append(text);
}

Result<Interpreter::Flow> Interpreter::if_statement(const Stmt& stmt) {
    for (size_t i = 0; i < stmt.conditions.size(); ++i) {
        FORESAY_TRY(const Value condition, evaluate(*stmt.conditions[i]));
        if (is_true(condition)) {
            return execute(stmt.bodies[i]);
        }
    }
    return stmt.bodies.size() > stmt.conditions.size() ? execute(stmt.bodies.back()) : Result<Flow>(Flow::kNext);
}

Result<std::shared_ptr<const List>> Interpreter::filtered(const Stmt& stmt, std::shared_ptr<const List> items) {
    if (stmt.conditions.empty()) {
        return items;
    }
    std::vector<Value> kept;
    auto scope = std::make_shared<Scope>();
    scope->parent = scope_;
    const std::shared_ptr<Scope> outer = std::exchange(scope_, scope);
    Status status = ok();
    for (const Value& item : items->items) {
        status = assign(stmt.target, item);
        if (!status.has_value()) {
            break;
        }
        Result<Value> condition = evaluate(*stmt.conditions[0]);
        if (!condition.has_value()) {
            status = condition.error();
            break;
        }
        if (is_true(*condition)) {
            kept.push_back(item);
        }
    }
    scope_ = outer;
    FORESAY_CHECK_OK(std::move(status));
    FORESAY_TRY(const Value list, render_.list(std::move(kept)));
    return list.list_ptr();
}

Result<Interpreter::Flow> Interpreter::for_statement(const Stmt& stmt) {
    FORESAY_TRY(const Value iterable, evaluate(*stmt.expr));
    FORESAY_TRY(std::shared_ptr<const List> all, render_.items(iterable));
    FORESAY_TRY(std::shared_ptr<const List> items, filtered(stmt, std::move(all)));
    if (items->items.empty()) {
        if (stmt.bodies[1].empty()) {
            return Flow::kNext;
        }
        auto scope = std::make_shared<Scope>();
        scope->parent = scope_;
        const std::shared_ptr<Scope> outer = std::exchange(scope_, std::move(scope));
        Result<Flow> flow = execute(stmt.bodies[1]);
        scope_ = outer;
        return flow;
    }
    auto loop = std::make_shared<Loop>();
    loop->items = items;
    loop->depth = items->depth + 1;
    const std::shared_ptr<Scope> outer = scope_;
    Result<Flow> flow = Flow::kNext;
    for (; loop->index < items->items.size(); ++loop->index) {
        // A pass has variables of its own; the scope is used again unless a macro keeps it.
        if (scope_ == outer || scope_.use_count() > 1) {
            scope_ = std::make_shared<Scope>();
            scope_->parent = outer;
        }
        scope_->variables.clear();
        scope_->variables.emplace_back("loop", Value(loop));
        Status assigned = assign(stmt.target, items->items[loop->index]);
        flow = assigned.has_value() ? execute(stmt.bodies[0]) : Result<Flow>(assigned.error());
        if (!flow.has_value() || *flow == Flow::kBreak) {
            break;
        }
    }
    scope_ = outer;
    return flow.has_value() ? Result<Flow>(Flow::kNext) : flow;
}

Result<Interpreter::Flow> Interpreter::with_statement(const Stmt& stmt) {
    auto scope = std::make_shared<Scope>();
    scope->parent = scope_;
    for (size_t i = 0; i < stmt.values.size(); ++i) {
        FORESAY_TRY(Value value, evaluate(*stmt.values[i]));
        scope->set(stmt.target.targets[i].name, std::move(value));
    }
    const std::shared_ptr<Scope> outer = std::exchange(scope_, std::move(scope));
    Result<Flow> flow = execute(stmt.bodies[0]);
    scope_ = outer;
    return flow;
}

Status Interpreter::assign(const Target& target, Value value) {
    FORESAY_CHECK_OK(render_.charge(1));
    if (!target.targets.empty()) {
        FORESAY_TRY(const std::shared_ptr<const List> items, render_.items(value));
        if (items->items.size() != target.targets.size()) {
            return error(Code::kInvalidArgument,
                         fmt::format("{} values for {} variables", items->items.size(), target.targets.size()),
                         to_string(target.position));
        }
        for (size_t i = 0; i < target.targets.size(); ++i) {
            FORESAY_CHECK_OK(assign(target.targets[i], items->items[i]));
        }
        return ok();
    }
    if (target.attribute.empty()) {
        scope_->set(target.name, std::move(value));
        return ok();
    }
    Expr holder;
    holder.kind = Expr::Kind::kName;
    holder.name = target.name;
    holder.position = target.position;
    FORESAY_TRY(const Value ns, evaluate(holder));
    if (ns.kind() != Kind::kNamespace) {
        return error(
            Code::kInvalidArgument,
            fmt::format("can't assign to '{}.{}': only a namespace can be changed", target.name, target.attribute),
            to_string(target.position));
    }
    ns.as_namespace().set(target.attribute, std::move(value));
    return ok();
}

Status Interpreter::set_statement(const Stmt& stmt) {
    FORESAY_TRY(Value value, evaluate(*stmt.expr));
    return assign(stmt.target, std::move(value));
}

Result<Value> Interpreter::capture(const Body& body) {
    std::string text;
    std::string* const outer_out = std::exchange(out_, &text);
    auto scope = std::make_shared<Scope>();
    scope->parent = scope_;
    const std::shared_ptr<Scope> outer = std::exchange(scope_, std::move(scope));
    Result<Flow> flow = execute(body);
    scope_ = outer;
    out_ = outer_out;
    render_.meter.live_bytes -= text.size();
    FORESAY_CHECK_OK(std::move(flow));
    return render_.text(std::move(text));
}

Status Interpreter::set_block(const Stmt& stmt) {
    FORESAY_TRY(Value value, capture(stmt.bodies[0]));
    if (stmt.expr != nullptr) {
        scope_->set(kBlockText, std::move(value));
        FORESAY_TRY(value, evaluate(*stmt.expr));
    }
    return assign(stmt.target, std::move(value));
}

Status Interpreter::filter_block(const Stmt& stmt) {
    FORESAY_TRY(Value text, capture(stmt.bodies[0]));
    scope_->set(kBlockText, std::move(text));
    FORESAY_TRY(const Value value, evaluate(*stmt.expr));
    return output(value);
}

Value Interpreter::define(const Macro& macro) {
    if (kept_.empty() || kept_.back() != scope_) {
        kept_.push_back(scope_);
    }
    auto callable = std::make_shared<Callable>();
    callable->name = macro.name;
    callable->macro = &macro;
    callable->scope = scope_;
    return Value(std::shared_ptr<const Callable>(std::move(callable)));
}

Status Interpreter::call_statement(const Stmt& stmt) {
    FORESAY_CHECK_OK(render_.charge(kMacroCost));
    const Value caller = define(*stmt.macro);
    Result<Value> value = call(*stmt.expr, &caller);
    if (!value.has_value()) {
        if (value.error().where.empty()) {
            value.error().where = to_string(stmt.expr->position);
        }
        return value.error();
    }
    return output(*value);
}

}  // namespace foresay::jinja
