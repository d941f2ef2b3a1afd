// Texts as lines of JSON, in: {"id": "d1", "title": "...", "text": "..."}.
//
// Python reads such lines, too (io/records.py), and says what is wrong with a line. This is the fast way for lines that
// nothing is odd about; where one is, the caller gives all of them to Python.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "segmax/io/text.hpp"

namespace segmax {

/// Some texts, one after the other.
struct PackedTexts {
    std::vector<std::uint8_t> content;   ///< in UTF-8: title, text, title, text, ...
    std::vector<std::uint32_t> lengths;  ///< of each of these, in bytes
    TextList ids;                        ///< one per text, or none at all
};

/// The texts of these lines; blank lines are skipped. Nothing if a line is odd: it is no object in JSON, has no text,
/// has an id where others have none, calls something by a name that is known in another case, and so on.
std::optional<PackedTexts> read_json_texts(std::string_view lines);

}  // namespace segmax
