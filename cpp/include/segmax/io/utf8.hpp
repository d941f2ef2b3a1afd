// Characters in UTF-8, one by one.
#pragma once

#include <cstdint>
#include <string>

namespace segmax {

/// Appends a character.
inline void append_utf8(std::uint32_t code, std::string& out) {
    const auto byte = [&](std::uint32_t value) { out.push_back(static_cast<char>(value)); };
    if (code < 0x80) {
        byte(code);
    } else if (code < 0x800) {
        byte(0xC0 | code >> 6);
        byte(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        byte(0xE0 | code >> 12);
        byte(0x80 | (code >> 6 & 0x3F));
        byte(0x80 | (code & 0x3F));
    } else {
        byte(0xF0 | code >> 18);
        byte(0x80 | (code >> 12 & 0x3F));
        byte(0x80 | (code >> 6 & 0x3F));
        byte(0x80 | (code & 0x3F));
    }
}

/// The character at `at`, which is moved behind it. The text up to `end` must be valid UTF-8.
inline std::uint32_t next_code_point(const char*& at, const char* end) {
    const auto first = static_cast<unsigned char>(*at++);
    if (first < 0x80U) return first;
    const int more = first >= 0xF0U ? 3 : first >= 0xE0U ? 2 : 1;
    std::uint32_t code = first & (0x3FU >> static_cast<unsigned>(more));
    for (int i = 0; i < more && at != end; ++i) code = code << 6U | (static_cast<unsigned char>(*at++) & 0x3FU);
    return code;
}

}  // namespace segmax
