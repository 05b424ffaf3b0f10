#include "engine/text_out.h"

#include <algorithm>

#include "base/text.h"

namespace foresay::engine {

TextOut::TextOut(std::vector<std::string> stops) : stops_(std::move(stops)) {
    stops_.erase(std::remove_if(stops_.begin(), stops_.end(), [](const std::string& stop) { return stop.empty(); }),
                 stops_.end());
}

TextOut::Step TextOut::push(std::string_view piece) {
    withheld_ += utf8_.push(piece);
    Step step;
    size_t first = std::string::npos;
    for (const std::string& stop : stops_) {
        const size_t at = withheld_.find(stop);
        if (at < first) {
            first = at;
            step.stopping_word = stop;
        }
    }
    if (first != std::string::npos) {
        step.stopped = true;
        step.text = withheld_.substr(0, first);
        withheld_.clear();
        return step;
    }
    size_t keep = 0;
    for (const std::string& stop : stops_) {
        keep = std::max(keep, begun_at_end(withheld_, stop));
    }
    step.text = withheld_.substr(0, withheld_.size() - keep);
    withheld_.erase(0, withheld_.size() - keep);
    return step;
}

std::string TextOut::finish() {
    std::string text = std::move(withheld_);
    withheld_.clear();
    return text + utf8_.finish();
}

}  // namespace foresay::engine
