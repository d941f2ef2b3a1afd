#include "segmax/io/json_vectors.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "segmax/io/errors.hpp"

namespace segmax {

namespace {

constexpr std::string_view kIdNames[] = {"id", "_id", "docid", "doc_id", "docno", "pid", "qid", "query_id"};
constexpr std::string_view kVectorNames[] = {"vector", "toks", "query_toks"};

/// What may stand behind a backslash, but for u, and what it means.
constexpr std::string_view kEscapes = "\"\\/bfnrt";
constexpr std::string_view kEscaped = "\"\\/\b\f\n\r\t";

template <std::size_t n>
bool is_one_of(std::string_view name, const std::string_view (&names)[n]) {
    for (const std::string_view known : names) {
        if (name == known) return true;
    }
    return false;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

void append_utf8(std::uint32_t code, std::string& out) {
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

/// One line of JSON, read from the left. Every look ahead is checked against the end.
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

    /// Any value.
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
        if (last != at_) return "'" + std::string(at_, last) + "'";
        const auto byte = static_cast<unsigned char>(*at_);
        if (byte >= 0x20 && byte < 0x7F) return std::string("'") + *at_ + "'";
        constexpr char digits[] = "0123456789abcdef";
        return std::string("the byte 0x") + digits[byte >> 4] + digits[byte & 15];
    }

    void skip_digits() {
        while (is_digit(peek())) ++at_;
    }

    void skip_word(std::string_view word) {
        if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).substr(0, word.size()) != word) {
            fail("expected a value");
        }
        at_ += word.size();
    }

    void skip_name() {
        skip_space();
        if (peek() != '"') fail("expected the name of a member");
        skip_string();
        skip_space();
        expect(':', "behind the name of a member");
    }

    /// Behind a value: leaves what ends here, and goes on to the next value. False where all has ended.
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

/// Whether a number is too large for a double, given that it is too large or too small.
bool is_huge(std::string_view text) {
    // The power of ten of the first digit that is not zero.
    const std::size_t mantissa_end = std::min(text.find_first_of("eE"), text.size());
    const std::string_view mantissa = text.substr(0, mantissa_end);
    const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
    const std::size_t first = mantissa.find_first_of("123456789");
    if (first == std::string_view::npos) return false;
    const double place = first < point ? static_cast<double>(point - first) : -static_cast<double>(first - point);
    double exponent = 0;
    if (mantissa_end < text.size()) {
        std::string_view digits = text.substr(mantissa_end + 1);
        const bool negative = digits[0] == '-';
        if (negative || digits[0] == '+') digits.remove_prefix(1);
        for (const char c : digits) exponent = std::min(10 * exponent + (c - '0'), 1e15);
        if (negative) exponent = -exponent;
    }
    return place + exponent > 0;
}

/// The value of a number that JSON's grammar allows. False if a double cannot hold it.
bool to_double(std::string_view text, double& value) {
    if (text.size() <= 15) {  // most impacts are a few digits
        std::uint64_t whole = 0;
        std::size_t i = 0;
        for (; i < text.size() && is_digit(text[i]); ++i)
            whole = 10 * whole + static_cast<std::uint64_t>(text[i] - '0');
        if (i == text.size()) {
            value = static_cast<double>(whole);
            return true;
        }
    }
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) {
        if (is_huge(text)) return false;
        value = 0;
    }
    return true;
}

}  // namespace

void JsonVectorParser::parse(std::string_view text) {
    while (!text.empty()) {
        const auto* feed = static_cast<const char*>(std::memchr(text.data(), '\n', text.size()));
        const std::size_t length = feed == nullptr ? text.size() : static_cast<std::size_t>(feed - text.data());
        ++line_;
        std::string_view line = text.substr(0, length);
        if (line_ == 1 && line.substr(0, 3) == "\xEF\xBB\xBF") line.remove_prefix(3);
        parse_line(line);
        text.remove_prefix(std::min(length + 1, text.size()));
    }
}

void JsonVectorParser::parse_line(std::string_view line) {
    Scanner scan(line, line_);
    scan.skip_space();
    if (scan.at_end()) return;
    if (!scan.take('{')) scan.fail("expected an object {\"id\": ..., \"vector\": {...}}");
    ++row_;
    bool has_id = false;
    bool has_vector = false;

    const auto read_id = [&] {
        const char* start = scan.place();
        const bool number = scan.peek() == '-' || is_digit(scan.peek());
        const std::string_view id =
            number ? scan.number_text("an id") : scan.string("a string or whole number as id", scratch_);
        if (number && id.find_first_of(".eE") != std::string_view::npos) {
            scan.fail_at(start, "expected a string or whole number as id, got " + std::string(id.substr(0, 40)));
        }
        if (!is_utf8(id)) scan.fail_at(start, "expected an id in UTF-8, got other bytes");
        rows_.ids.add(id);
        has_id = true;
    };
    const auto read_weight = [&](std::uint32_t term) {
        const char* start = scan.place();
        const char c = scan.peek();
        if (c != '-' && !is_digit(c)) scan.fail("expected a number as the weight of " + shown(vocabulary_[term]));
        const std::string_view text = scan.number_text("a number");
        double weight = 0;
        if (!to_double(text, weight) || weight < 0) {
            scan.fail_at(start, "expected a finite weight >= 0 for " + shown(vocabulary_[term]) + ", got " +
                                    std::string(text.substr(0, 40)));
        }
        rows_.terms.push_back(term);
        rows_.weights.push_back(weight);
    };
    const auto read_vector = [&] {
        if (has_vector) scan.fail_at(scan.place(), "expected one vector, got a second one");
        has_vector = true;
        if (!scan.take('{')) scan.fail("expected the vector as an object of terms and weights");
        scan.skip_space();
        if (scan.take('}')) return;
        do {
            scan.skip_space();
            const char* start = scan.place();
            const std::string_view name = scan.string("a term", scratch_);
            const auto [term, is_new] = vocabulary_.find_or_add(name);
            if (is_new) {
                if (!is_utf8(name)) scan.fail_at(start, "expected a term in UTF-8, got other bytes");
                last_row_.push_back(0);
            }
            if (last_row_[term] == row_) scan.fail_at(start, "expected every term once, got " + shown(name) + " again");
            last_row_[term] = row_;
            scan.skip_space();
            scan.expect(':', "behind a term");
            scan.skip_space();
            read_weight(term);
            scan.skip_space();
        } while (scan.take(','));
        scan.expect('}', "or ',' behind a weight");
    };

    scan.skip_space();
    if (!scan.take('}')) {
        do {
            scan.skip_space();
            const std::string_view name = scan.string("the name of a member", scratch_);
            const bool is_id = !has_id && is_one_of(name, kIdNames);
            const bool is_vector = is_one_of(name, kVectorNames);
            scan.skip_space();
            scan.expect(':', "behind the name of a member");
            scan.skip_space();
            if (is_id) {
                read_id();
            } else if (is_vector) {
                read_vector();
            } else {
                scan.skip_value();
            }
            scan.skip_space();
        } while (scan.take(','));
        scan.expect('}', "or ',' behind a member");
    }
    scan.skip_space();
    if (!scan.at_end()) scan.fail("expected nothing behind the object");
    if (!has_id) scan.fail("expected a member \"id\"");
    if (!has_vector) scan.fail("expected a member \"vector\"");
    rows_.indptr.push_back(static_cast<std::int64_t>(rows_.terms.size()));
}

VectorRows JsonVectorParser::take() {
    return std::exchange(rows_, VectorRows{});
}

// --- out ---

namespace {

void append_json(std::string_view text, std::string& out) {
    constexpr char digits[] = "0123456789abcdef";
    out.push_back('"');
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out.push_back('\\');
            out.push_back(c);
        } else if (byte < 0x20) {
            out.append("\\u00");
            out.push_back(digits[byte >> 4]);
            out.push_back(digits[byte & 15]);
        } else {
            out.push_back(c);
        }
    }
    out.push_back('"');
}

void append_number(double value, std::string& out) {
    std::array<char, 32> text;
    constexpr double largest_whole = 9007199254740992;  // 2^53
    const bool whole = std::abs(value) < largest_whole && value == std::floor(value);
    const auto [end, error] = whole
                                  ? std::to_chars(text.data(), text.data() + text.size(), static_cast<long long>(value))
                                  : std::to_chars(text.data(), text.data() + text.size(), value);
    out.append(text.data(), end);
}

/// Whether the text is how a whole number of at most 18 digits is written.
bool is_plain_number(std::string_view text) {
    if (text.empty() || text.size() > 18 || (text[0] == '0' && text.size() > 1)) return false;
    for (const char c : text) {
        if (!is_digit(c)) return false;
    }
    return true;
}

}  // namespace

void JsonVectorFormatter::add_term(std::string_view term) {
    std::string text;
    append_json(term, text);
    text += ": ";
    terms_.add(text);
}

void JsonVectorFormatter::append(std::string_view id, bool numbers, std::span<const std::uint32_t> terms,
                                 std::span<const double> weights, std::string& out) const {
    out.append("{\"id\": ");
    if (numbers && is_plain_number(id)) {
        out.append(id);
    } else {
        append_json(id, out);
    }
    out.append(numbers ? ", \"content\": \"\", \"vector\": {" : ", \"contents\": \"\", \"vector\": {");
    for (std::size_t i = 0; i < terms.size(); ++i) {
        if (i > 0) out.append(", ");
        out.append(terms_[terms[i]]);
        append_number(weights[i], out);
    }
    out.append("}}\n");
}

}  // namespace segmax
