// The filters by what they work on; find_filter (filters.cpp) holds the table. Internal to jinja.
#pragma once

#include "chat/jinja/render.h"

namespace foresay::jinja::filters {

#define FORESAY_FILTER(name) Result<Value> name(Render& render, const Value& self, const Args& args)

// Text: filters_text.cpp.
FORESAY_FILTER(capitalize);
FORESAY_FILTER(center);
FORESAY_FILTER(escape);
FORESAY_FILTER(format);
FORESAY_FILTER(indent);
FORESAY_FILTER(lower);
FORESAY_FILTER(replace);
FORESAY_FILTER(safe);
FORESAY_FILTER(string);
FORESAY_FILTER(title);
FORESAY_FILTER(trim);
FORESAY_FILTER(truncate);
FORESAY_FILTER(upper);
FORESAY_FILTER(wordcount);
FORESAY_FILTER(tojson);
FORESAY_FILTER(from_json);
FORESAY_FILTER(urlencode);

// Sequences: filters_sequence.cpp.
FORESAY_FILTER(batch);
FORESAY_FILTER(dictsort);
FORESAY_FILTER(first);
FORESAY_FILTER(groupby);
FORESAY_FILTER(items);
FORESAY_FILTER(join);
FORESAY_FILTER(last);
FORESAY_FILTER(list);
FORESAY_FILTER(max);
FORESAY_FILTER(min);
FORESAY_FILTER(reverse);
FORESAY_FILTER(sort);
FORESAY_FILTER(sum);
FORESAY_FILTER(unique);

// Filters that run others: filters_map.cpp.
FORESAY_FILTER(map);
FORESAY_FILTER(select);
FORESAY_FILTER(reject);
FORESAY_FILTER(selectattr);
FORESAY_FILTER(rejectattr);

#undef FORESAY_FILTER

/// Follows "a.b.0" from a value. Missing parts are undefined.
Result<Value> dotted(Render& render, const Value& value, const Value& path);

}  // namespace foresay::jinja::filters
