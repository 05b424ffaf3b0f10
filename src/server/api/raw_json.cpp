#include "server/api/raw_json.h"

#include <algorithm>

#include <nlohmann/json.hpp>
#include <string>

namespace foresay::server {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

/// Reads valid JSON from left to right; past the end every step does nothing.
class Scanner {
  public:
    explicit Scanner(std::string_view text) : text_(text) { skip_blank(); }

    bool take(char c) {
        skip_blank();
        if (pos_ >= text_.size() || text_[pos_] != c) {
            return false;
        }
        ++pos_;
        skip_blank();
        return true;
    }

    /// The text of the value that begins here.
    std::string_view value() {
        skip_blank();
        const size_t begin = pos_;
        int depth = 0;
        do {
            if (pos_ >= text_.size()) {
                break;
            }
            const char c = text_[pos_];
            if (c == '"') {
                skip_string();
            } else if (c == '{' || c == '[') {
                ++depth;
                ++pos_;
            } else if (c == '}' || c == ']') {
                --depth;
                ++pos_;
            } else if (depth > 0) {
                ++pos_;
            } else {
                pos_ = std::min(text_.find_first_of(" \t\r\n,]}", pos_), text_.size());
            }
        } while (depth > 0);
        return text_.substr(begin, pos_ - begin);
    }

  private:
    void skip_blank() { pos_ = std::min(text_.find_first_not_of(kBlank, pos_), text_.size()); }

    void skip_string() {
        for (++pos_; pos_ < text_.size() && text_[pos_] != '"'; ++pos_) {
            pos_ += text_[pos_] == '\\' ? 1 : 0;
        }
        pos_ = std::min(pos_ + 1, text_.size());
    }

    std::string_view text_;
    size_t pos_ = 0;
};

/// Keys may be written with escapes.
bool is_key(std::string_view raw, std::string_view key) {
    if (raw.find('\\') == std::string_view::npos) {
        return raw.size() >= 2 && raw.substr(1, raw.size() - 2) == key;
    }
    const auto text = nlohmann::json::parse(raw.begin(), raw.end(), nullptr, false);
    return text.is_string() && text.get_ref<const std::string&>() == key;
}

}  // namespace

std::string_view raw_member(std::string_view object, std::string_view key) {
    Scanner scanner(object);
    std::string_view found;
    if (!scanner.take('{') || scanner.take('}')) {
        return found;
    }
    do {
        const std::string_view name = scanner.value();
        if (!scanner.take(':')) {
            break;
        }
        const std::string_view value = scanner.value();
        found = is_key(name, key) ? value : found;
    } while (scanner.take(','));
    return found;
}

std::string_view raw_element(std::string_view array, size_t index) {
    Scanner scanner(array);
    if (!scanner.take('[') || scanner.take(']')) {
        return {};
    }
    std::string_view found = scanner.value();
    for (size_t i = 0; i < index; ++i) {
        if (!scanner.take(',')) {
            return {};
        }
        found = scanner.value();
    }
    return found;
}

}  // namespace foresay::server
