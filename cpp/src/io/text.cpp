#include "segmax/io/text.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "segmax/io/errors.hpp"

namespace segmax {

namespace {

constexpr std::size_t kFirstSlots = 1024;

std::uint64_t mixed(std::uint64_t value) {
    value ^= value >> 32;
    value *= 0xD6E8FEB86659FD93U;
    return value ^ (value >> 32);
}

bool is_continuation(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Bytes of the valid sequence at the start of `text`, whose first byte is not ASCII; 0 if there is none.
std::size_t sequence_length(std::string_view text) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t length = first >= 0xF0U ? 4 : first >= 0xE0U ? 3 : 2;
    if (first < 0xC2U || first > 0xF4U || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if (!is_continuation(text[i])) return 0;
    }
    const auto second = static_cast<unsigned char>(text[1]);
    const bool overlong = (first == 0xE0U && second < 0xA0U) || (first == 0xF0U && second < 0x90U);
    const bool surrogate = first == 0xEDU && second >= 0xA0U;
    const bool too_large = first == 0xF4U && second >= 0x90U;
    return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

// Eight bytes at a time: terms and ids are short, and most are one or two rounds.
std::uint64_t stable_hash(std::string_view text) {
    std::uint64_t hash = 0x9E3779B97F4A7C15U * (text.size() + 1);
    while (text.size() >= 8) {
        std::uint64_t word;
        std::memcpy(&word, text.data(), 8);  // little endian
        hash = mixed(hash ^ word) * 0x9E3779B97F4A7C15U;
        text.remove_prefix(8);
    }
    std::uint64_t rest = 0;
    if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
    return mixed(hash ^ rest);
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        if (text.size() >= 8) {  // most bytes are ASCII
            std::uint64_t bytes;
            std::memcpy(&bytes, text.data(), 8);
            if ((bytes & 0x8080808080808080U) == 0) {
                text.remove_prefix(8);
                continue;
            }
        }
        if (static_cast<unsigned char>(text[0]) < 0x80U) {
            text.remove_prefix(1);
            continue;
        }
        const std::size_t length = sequence_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string shown(std::string_view text) {
    constexpr std::size_t most = 60;
    constexpr char digits[] = "0123456789abcdef";
    std::string out(1, '"');
    std::string_view rest = text;
    while (!rest.empty() && out.size() <= most) {
        const auto first = static_cast<unsigned char>(rest[0]);
        const std::size_t length = first < 0x80U ? 1 : sequence_length(rest);
        // The C1 controls, U+0080 to U+009F, are two bytes long.
        const bool control = first < 0x20U || first == 0x7FU || length == 0 ||
                             (first == 0xC2U && static_cast<unsigned char>(rest[1]) < 0xA0U);
        const std::string_view taken = rest.substr(0, length == 0 ? 1 : length);
        for (const char c : taken) {
            if (!control) {
                out.push_back(c);
                continue;
            }
            const auto byte = static_cast<unsigned char>(c);
            out.append("\\x").append(1, digits[byte >> 4U]).append(1, digits[byte & 15U]);
        }
        rest.remove_prefix(taken.size());
    }
    return out.append(rest.empty() ? "\"" : "...\"");
}

Vocabulary::Vocabulary() : slots_(kFirstSlots) {}

Vocabulary::Found Vocabulary::find_or_add(std::string_view term) {
    const auto hash = static_cast<std::uint32_t>(stable_hash(term));
    const std::size_t mask = slots_.size() - 1;
    std::size_t place = hash & mask;
    for (; slots_[place].number_plus_one != 0; place = (place + 1) & mask) {
        const Slot& slot = slots_[place];
        if (slot.hash == hash && terms_[slot.number_plus_one - 1] == term) return {slot.number_plus_one - 1, false};
    }
    if (terms_.size() >= std::numeric_limits<std::uint32_t>::max() - 1) throw InputError("too many different terms");
    const auto number = static_cast<std::uint32_t>(terms_.size());
    terms_.add(term);
    slots_[place] = {hash, number + 1};
    if (2 * terms_.size() > slots_.size()) grow();
    return {number, true};
}

void Vocabulary::grow() {
    std::vector<Slot> larger(2 * slots_.size());
    const std::size_t mask = larger.size() - 1;
    for (const Slot& slot : slots_) {
        if (slot.number_plus_one == 0) continue;
        std::size_t place = slot.hash & mask;
        while (larger[place].number_plus_one != 0) place = (place + 1) & mask;
        larger[place] = slot;
    }
    slots_ = std::move(larger);
}

}  // namespace segmax
