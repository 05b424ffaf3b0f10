// The tree of a template: plain data, made by the parser and walked by the interpreter. Internal to jinja.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/callable.h"
#include "chat/jinja/value.h"

namespace foresay::jinja {

/// 1-based; column in code points.
struct Position {
    int line = 0;
    int column = 0;
};

/// "chat template, line 3, column 7".
std::string to_string(Position position);

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class Operator : uint8_t {
    kAdd,
    kSub,
    kMul,
    kDiv,
    kFloorDiv,
    kMod,
    kPow,
    kEq,
    kNe,
    kLt,
    kLe,
    kGt,
    kGe,
    kIn,
    kNotIn
};

struct Expr {
    enum class Kind : uint8_t {
        kConstant,     ///< value
        kName,         ///< name
        kList,         ///< items
        kTuple,        ///< items
        kDict,         ///< items: key, value, key, value
        kAttribute,    ///< items[0] . name
        kItem,         ///< items[0] [items[1]]
        kSlice,        ///< items[0] [items[1] : items[2] : items[3]], the last three may be null
        kCall,         ///< items[0] (items[1...], named)
        kFilter,       ///< items[0] | name(items[1...], named); function null: unknown, an error when it runs
        kTest,         ///< items[0] is name(items[1...], named); negated by a kNot around it
        kNot,          ///< items[0]
        kNegative,     ///< items[0]
        kPositive,     ///< items[0]
        kBinary,       ///< items[0] operators[0] items[1]
        kCompare,      ///< items[0] operators[0] items[1] operators[1] items[2] ...
        kAnd,          ///< items[0], items[1]
        kOr,           ///< items[0], items[1]
        kConcat,       ///< items joined by ~
        kConditional,  ///< items[0] if items[1] else items[2], the last may be null
    };

    Kind kind = Kind::kConstant;
    Position position;
    Value value;
    std::string name;
    std::vector<ExprPtr> items;
    std::vector<std::pair<std::string, ExprPtr>> named;
    std::vector<Operator> operators;
    Function function = nullptr;
    Test test = nullptr;
    int depth = 1;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

/// A target of set and for: a name, an attribute of a namespace, or several of these.
struct Target {
    std::string name;
    std::string attribute;        ///< not empty: name.attribute
    std::vector<Target> targets;  ///< not empty: unpacking
    Position position;
};

struct Parameter {
    std::string name;
    ExprPtr fallback;  ///< null: undefined when not given
};

/// A macro, or the block of a call (which is a macro named "caller").
struct Macro {
    std::string name;
    std::vector<Parameter> parameters;
    Body body;
    bool uses_varargs = false;  ///< takes more arguments than it names
    bool uses_kwargs = false;
    bool uses_caller = false;
};

struct Stmt {
    enum class Kind : uint8_t {
        kText,      ///< text
        kOutput,    ///< expr
        kIf,        ///< conditions[i] -> bodies[i]; one body more than conditions: else
        kFor,       ///< target, expr, conditions[0] (filter, may be absent), bodies[0], bodies[1] (else, may be empty)
        kSet,       ///< target = expr
        kSetBlock,  ///< target = bodies[0], filtered by expr (on the name of the block's text) if not null
        kMacro,     ///< macro
        kCall,      ///< expr (a kCall) with macro as caller
        kFilterBlock,  ///< expr applied to bodies[0]
        kWith,         ///< targets.targets[i] = values[i], bodies[0]
        kBreak,
        kContinue
    };

    Kind kind = Kind::kText;
    Position position;
    std::string text;
    ExprPtr expr;
    Target target;
    std::vector<ExprPtr> conditions;
    std::vector<ExprPtr> values;
    std::vector<Body> bodies;
    std::unique_ptr<Macro> macro;
};

/// Name under which the text of a `set` or `filter` block reaches its filter expression; no template can spell it.
inline constexpr const char* kBlockText = "(block)";

}  // namespace foresay::jinja
