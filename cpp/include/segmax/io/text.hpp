// Texts one after the other in one buffer, and a check of their encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace segmax {

/// Whether these bytes are UTF-8 as Python decodes it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text);

/// A text for a message: the beginning of a long one, in quotes, control characters and bytes that are not UTF-8
/// escaped, so that it stays on one line and can be decoded.
std::string shown(std::string_view text);

/// A hash that is the same on every machine and in every version: files may hold it. It does not withstand whoever
/// looks for collisions, so compare the texts as well.
std::uint64_t stable_hash(std::string_view text);

/// Texts by number.
class TextList {
public:
    void add(std::string_view text) {
        bytes_.append(text);
        end_.push_back(bytes_.size());
    }
    std::size_t size() const { return end_.size(); }
    std::string_view operator[](std::size_t number) const {
        const std::size_t first = number == 0 ? 0 : end_[number - 1];
        return std::string_view(bytes_).substr(first, end_[number] - first);
    }

private:
    std::string bytes_;
    std::vector<std::size_t> end_;
};

/// Terms by number and numbers by term. Numbers are given in the order of first sight.
class Vocabulary {
public:
    Vocabulary();

    struct Found {
        std::uint32_t number;
        bool is_new;
    };
    /// The number of a term, which is added if it is new.
    Found find_or_add(std::string_view term);
    std::size_t size() const { return terms_.size(); }
    std::string_view operator[](std::size_t number) const { return terms_[number]; }

private:
    struct Slot {
        std::uint32_t hash = 0;
        std::uint32_t number_plus_one = 0;  // 0: free
    };
    void grow();

    TextList terms_;
    std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
};

}  // namespace segmax
