// JSON that arrives in pieces: finds where a value ends, and reads the calls that objects of it describe.
// Internal to chat.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "chat/syntax.h"

namespace foresay::chat {

/// Follows one JSON value, byte by byte. It checks brackets and strings, not the grammar in between: arguments are
/// handed on as text, and whoever parses them has the last word.
class JsonScan {
  public:
    enum class State { kMore, kDone, kBad };

    /// Adds a byte. kDone: the value ended with this byte, or (for numbers and words) before it: see took_last().
    State add(char c);

    /// After kDone: false if the last byte belongs to what follows.
    bool took_last() const { return took_last_; }

  private:
    static constexpr size_t kMaxDepth = 64;

    std::string open_;  ///< the closing brackets that are waited for
    bool in_string_ = false;
    bool escaped_ = false;
    bool in_word_ = false;
    bool took_last_ = true;
};

/// The value of a JSON string's text, quotes included; the text itself if it isn't one.
std::string unquoted(std::string_view json);
/// JSON text of a string, quotes included.
std::string json_quoted(std::string_view text);

/// Reads one object that describes a call; gives the name and the arguments' text as they become known.
class CallObject {
  public:
    enum class State { kMore, kDone, kBad };

    explicit CallObject(const CallSyntax& syntax) : syntax_(&syntax) {}

    /// Adds a byte; the first must be '{'.
    State add(char c);

    bool has_name() const { return has_name_; }

    const std::string& name() const { return name_; }

    const std::string& id() const { return id_; }

    /// Arguments not taken yet; only after the name is known.
    std::string take_arguments() { return std::exchange(arguments_, {}); }

    bool has_arguments() const { return has_arguments_; }

  private:
    enum class At { kStart, kKey, kInKey, kColon, kValue, kInValue, kNext, kEnd };

    void begin_value(char c);
    void end_value();

    const CallSyntax* syntax_;
    At at_ = At::kStart;
    JsonScan scan_;
    std::string key_;
    std::string value_;  ///< of the key being read, unless it streams
    bool streams_ = false;
    bool has_name_ = false;
    bool has_arguments_ = false;
    std::string name_;
    std::string id_;
    std::string arguments_;
};

}  // namespace foresay::chat
