// The calls of a reply, read from its text behind the thoughts. One reader per form. Internal to chat.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "chat/output.h"

namespace foresay::chat {

/// Text that was read up to a place.
struct Input {
    std::string text;
    size_t pos = 0;
    bool is_end = false;  ///< nothing will follow

    std::string_view rest() const { return std::string_view(text).substr(pos); }

    void drop_read() {
        text.erase(0, pos);
        pos = 0;
    }
};

enum class Match { kYes, kNo, kMaybe };

/// Does text begin with mark? kMaybe: it may once more has come. An empty mark matches.
Match begins_with(std::string_view text, std::string_view mark, bool is_end);

/// The first place of one of the marks (empty ones don't count), or where the text's tail may be the beginning of one;
/// text.size() if neither.
struct Found {
    size_t pos = 0;
    int mark = -1;  ///< -1: none; the text from pos on may still become one
};

Found find_marks(std::string_view text, std::initializer_list<std::string_view> marks, bool is_end);
/// Does what stands before a mark end within `most` bytes? By where it ends and not by how much of it has come: the
/// same for a reply whole and in pieces. kMaybe: the mark may still come.
Match ends_within(const Found& found, size_t most);
size_t skip_blanks(std::string_view text);

/// What readers write to: numbers calls and makes ids.
class Sink {
  public:
    using Emit = std::function<void(Delta)>;

    Sink(Emit emit, const OutputOptions& options) : emit_(std::move(emit)), options_(options) {}

    void content(std::string_view text);
    void reasoning(std::string_view text);
    /// Begins a call. id: the model's own, or empty.
    void call(std::string name, std::string id);
    void arguments(std::string_view text);

    const OutputOptions& options() const { return options_; }

    /// The type in the tool's schema of an argument; empty if unknown.
    std::string argument_type(std::string_view tool, std::string_view argument) const;

  private:
    Emit emit_;
    const OutputOptions& options_;
    size_t n_calls_ = 0;
};

class CallReader {
  public:
    virtual ~CallReader() = default;
    /// Reads what it can of input; false when nothing more can be read now.
    virtual bool step(Input* input, Sink* sink) = 0;
};

/// Content with calls in it, by a row of the table of forms (kJson, kNamedJson, kXml).
std::unique_ptr<CallReader> make_marked_reader(const CallSyntax& syntax);
/// gpt-oss: reads thoughts as well.
std::unique_ptr<CallReader> make_harmony_reader(bool parse_calls);

/// The reader of one call's inside, behind its opening mark.
class BodyReader {
  public:
    enum class State { kMore, kDone, kBad };
    virtual ~BodyReader() = default;
    /// kBad before the call was begun: the text is content. kMore: wait for text.
    virtual State step(Input* input, Sink* sink) = 0;
    /// The call was begun (its name is out).
    virtual bool has_begun() const = 0;
};

std::unique_ptr<BodyReader> make_json_body(const CallSyntax& syntax);
std::unique_ptr<BodyReader> make_named_body(const CallSyntax& syntax);
std::unique_ptr<BodyReader> make_xml_body(const CallSyntax& syntax);

}  // namespace foresay::chat
