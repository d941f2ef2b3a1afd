// A scanner for one line of JSON: strings, numbers, and values to be skipped.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "segmax/io/errors.hpp"
#include "segmax/io/utf8.hpp"

namespace segmax::json {

/// The characters that may follow a backslash, other than u, and what they mean.
inline constexpr std::string_view kEscapes = "\"\\/bfnrt";
inline constexpr std::string_view kEscaped = "\"\\/\b\f\n\r\t";

inline bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// One line of JSON, read from the left. Every look ahead is checked against the end, so the line need not end in a
/// zero. Errors are InputError with the number of the line and the byte in it, counted from 1.
class Scanner {
public:
    Scanner(std::string_view line, std::uint64_t number)
        : begin_(line.data()), at_(begin_), end_(begin_ + line.size()), number_(number) {}

    [[noreturn]] void fail(const std::string& expected) const { fail_at(at_, expected + ", got " + seen()); }
    [[noreturn]] void fail_at(const char* place, const std::string& what) const {
        throw InputError("line " + std::to_string(number_) + ", byte " + std::to_string(place - begin_ + 1) + ": " +
                         what);
    }

    const char* place() const { return at_; }
    bool at_end() const { return at_ == end_; }
    char peek() const { return at_ == end_ ? '\0' : *at_; }
    void skip_space() {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
    }
    bool take(char c) {
        if (at_ == end_ || *at_ != c) return false;
        ++at_;
        return true;
    }
    void expect(char c, const char* where) {
        if (!take(c)) fail(std::string("expected '") + c + "' " + where);
    }

    /// A string; a view of the line or, where it has escapes, of `scratch`.
    std::string_view string(const char* what, std::string& scratch) {
        if (!take('"')) fail(std::string("expected ") + what);
        const char* first = at_;
        skip_plain();
        for (; at_ != end_; ++at_) {
            const char c = *at_;
            if (c == '"') return {first, static_cast<std::size_t>(at_++ - first)};
            if (c == '\\') return escaped_string(first, scratch);
            if (static_cast<unsigned char>(c) < 0x20) fail("expected no control character inside a string");
        }
        fail("expected the '\"' that ends a string");
    }

    void skip_string() {
        expect('"', "that starts a string");
        for (; at_ != end_; ++at_) {
            const char c = *at_;
            if (c == '"') {
                ++at_;
                return;
            }
            if (static_cast<unsigned char>(c) < 0x20) fail("expected no control character inside a string");
            if (c != '\\') continue;
            ++at_;
            if (peek() == 'u') {
                ++at_;
                hex();
                --at_;
            } else if (at_end() || kEscapes.find(*at_) == std::string_view::npos) {
                fail("expected an escape that JSON knows");
            }
        }
        fail("expected the '\"' that ends a string");
    }

    /// The text of a number, checked against JSON's grammar.
    std::string_view number_text(const std::string& what) {
        const char* first = at_;
        take('-');
        if (!is_digit(peek())) {
            at_ = first;
            fail("expected " + what);
        }
        if (!take('0')) skip_digits();
        if (is_digit(peek())) fail("expected a number without leading zeros");
        if (take('.')) {
            if (!is_digit(peek())) fail("expected a digit behind the point");
            skip_digits();
        }
        if (peek() == 'e' || peek() == 'E') {
            ++at_;
            if (peek() == '+' || peek() == '-') ++at_;
            if (!is_digit(peek())) fail("expected a digit in the exponent");
            skip_digits();
        }
        return {first, static_cast<std::size_t>(at_ - first)};
    }

    /// Skips any value. Open objects and arrays are on a stack of ours: nesting may be as deep as the line is long,
    /// which calls of functions would not survive.
    void skip_value() {
        stack_.clear();
        while (true) {
            skip_space();
            const char c = peek();
            if (c == '{' || c == '[') {
                ++at_;
                skip_space();
                if (!take(c == '{' ? '}' : ']')) {
                    stack_.push_back(c);
                    if (c == '{') skip_name();
                    continue;
                }
            } else if (c == '"') {
                skip_string();
            } else if (c == 't' || c == 'f' || c == 'n') {
                skip_word(c == 't' ? "true" : c == 'f' ? "false" : "null");
            } else {
                number_text("a value");
            }
            if (!next_in_stack()) return;
        }
    }

private:
    /// What stands at this place, for a message.
    std::string seen() const {
        if (at_ == end_) return "the end of the line";
        switch (*at_) {
            case '"':
                return "a string";
            case '{':
                return "an object";
            case '[':
                return "an array";
            default:
                break;
        }
        const char* last = at_;
        while (last != end_ && last - at_ < 20 && (std::isalnum(static_cast<unsigned char>(*last)) || *last == '-')) {
            ++last;
        }
        const auto byte = static_cast<unsigned char>(*at_);
        if (last == at_ && byte >= 0x20 && byte < 0x7F) ++last;
        if (last != at_) return std::string(1, '\'').append(at_, last).append(1, '\'');
        constexpr char digits[] = "0123456789abcdef";
        return std::string("the byte 0x") + digits[byte >> 4] + digits[byte & 15];
    }

    /// Skips characters of a string that mean themselves, eight at a time, as far as that goes.
    void skip_plain() {
        constexpr std::uint64_t ones = 0x0101010101010101U;
        constexpr std::uint64_t tops = 0x80U * ones;
        // Whether a byte of `word` is below `least`, which is at most 0x80.
        const auto has_below = [](std::uint64_t word, std::uint64_t least) {
            return ((word - least * ones) & ~word & tops) != 0;
        };
        for (; end_ - at_ >= 8; at_ += 8) {
            std::uint64_t word;
            std::memcpy(&word, at_, 8);
            if (has_below(word, 0x20) || has_below(word ^ '"' * ones, 1) || has_below(word ^ '\\' * ones, 1)) return;
        }
    }

    void skip_digits() {
        while (is_digit(peek())) ++at_;
    }

    void skip_word(std::string_view word) {
        if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word)) fail("expected a value");
        at_ += word.size();
    }

    void skip_name() {
        skip_space();
        if (peek() != '"') fail("expected the name of a member");
        skip_string();
        skip_space();
        expect(':', "behind the name of a member");
    }

    /// Behind a value: closes what ends here, and goes on to the next value. False where everything is closed.
    bool next_in_stack() {
        while (!stack_.empty()) {
            skip_space();
            const bool object = stack_.back() == '{';
            if (take(',')) {
                if (object) skip_name();
                return true;
            }
            expect(object ? '}' : ']', object ? "or ',' inside an object" : "or ',' inside an array");
            stack_.pop_back();
        }
        return false;
    }

    std::uint32_t hex() {
        std::uint32_t value = 0;
        for (int i = 0; i < 4; ++i) {
            const char c = peek();
            const int digit = is_digit(c)            ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) fail("expected four hexadecimal digits behind \\u");
            value = value << 4 | static_cast<std::uint32_t>(digit);
            ++at_;
        }
        return value;
    }

    std::string_view escaped_string(const char* first, std::string& scratch) {
        scratch.assign(first, at_);
        while (at_ != end_) {
            const char c = *at_;
            if (c == '"') {
                ++at_;
                return scratch;
            }
            if (static_cast<unsigned char>(c) < 0x20) fail("expected no control character inside a string");
            ++at_;
            if (c != '\\') {
                scratch.push_back(c);
            } else {
                unescape(scratch);
            }
        }
        fail("expected the '\"' that ends a string");
    }

    void unescape(std::string& out) {
        const char* start = at_ - 1;
        if (take('u')) {
            std::uint32_t code = hex();
            if (code >= 0xD800 && code < 0xDC00 && take('\\') && take('u')) {
                const std::uint32_t low = hex();
                code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : code;
            }
            if (code >= 0xD800 && code < 0xE000) fail_at(start, "expected a character, got half of a surrogate pair");
            append_utf8(code, out);
            return;
        }
        const std::size_t which = at_end() ? std::string_view::npos : kEscapes.find(*at_);
        if (which == std::string_view::npos) fail("expected an escape that JSON knows");
        out.push_back(kEscaped[which]);
        ++at_;
    }

    const char* begin_;
    const char* at_;
    const char* end_;
    std::uint64_t number_;
    std::vector<char> stack_;
};

}  // namespace segmax::json
