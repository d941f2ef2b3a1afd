#include "segmax/io/json_vectors.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/json_scanner.hpp"

namespace segmax {

using json::is_digit;
using json::Scanner;

namespace {

constexpr std::string_view kIdNames[] = {"id", "_id", "docid", "doc_id", "docno", "pid", "qid", "query_id"};
constexpr std::string_view kVectorNames[] = {"vector", "toks", "query_toks"};

template <std::size_t n>
bool is_one_of(std::string_view name, const std::string_view (&names)[n]) {
    for (const std::string_view known : names) {
        if (name == known) return true;
    }
    return false;
}

/// Whether a number is too large for a double, given that it is too large or too small: std::from_chars
/// does not distinguish the two.
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
        if (line_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
        parse_line(line);
        text.remove_prefix(std::min(length + 1, text.size()));
    }
}

/// A line under way.
struct JsonVectorParser::Line {
    Scanner scan;
    bool has_id = false;
    bool has_vector = false;
};

void JsonVectorParser::parse_line(std::string_view text) {
    Line line{Scanner(text, line_)};
    Scanner& scan = line.scan;
    scan.skip_space();
    if (scan.at_end()) return;
    if (!scan.take('{')) scan.fail("expected an object {\"id\": ..., \"vector\": {...}}");
    ++row_;
    scan.skip_space();
    if (!scan.take('}')) {
        do {
            read_member(line);
        } while (scan.take(','));
        scan.expect('}', "or ',' behind a member");
    }
    scan.skip_space();
    if (!scan.at_end()) scan.fail("expected nothing behind the object");
    if (!line.has_id) scan.fail("expected a member \"id\"");
    if (!line.has_vector) scan.fail("expected a member \"vector\"");
    rows_.indptr.push_back(static_cast<std::int64_t>(rows_.terms.size()));
}

void JsonVectorParser::read_member(Line& line) {
    Scanner& scan = line.scan;
    scan.skip_space();
    const std::string_view name = scan.string("the name of a member", scratch_);
    // Of several names for an id the first counts, as "id" beside "docid"; a second vector is an error.
    const bool is_id = !line.has_id && is_one_of(name, kIdNames);
    const bool is_vector = is_one_of(name, kVectorNames);
    scan.skip_space();
    scan.expect(':', "behind the name of a member");
    scan.skip_space();
    if (is_id) {
        read_id(line);
    } else if (is_vector) {
        read_vector(line);
    } else {
        scan.skip_value();
    }
    scan.skip_space();
}

void JsonVectorParser::read_id(Line& line) {
    Scanner& scan = line.scan;
    const char* start = scan.place();
    const bool number = scan.peek() == '-' || is_digit(scan.peek());
    const std::string_view id =
        number ? scan.number_text("an id") : scan.string("a string or whole number as id", scratch_);
    if (number && id.find_first_of(".eE") != std::string_view::npos) {
        scan.fail_at(start, "expected a string or whole number as id, got " + std::string(id.substr(0, 40)));
    }
    if (!is_utf8(id)) scan.fail_at(start, "expected an id in UTF-8, got other bytes");
    rows_.ids.add(id);
    line.has_id = true;
}

void JsonVectorParser::read_vector(Line& line) {
    Scanner& scan = line.scan;
    if (line.has_vector) scan.fail_at(scan.place(), "expected one vector, got a second one");
    line.has_vector = true;
    if (!scan.take('{')) scan.fail("expected the vector as an object of terms and weights");
    scan.skip_space();
    if (scan.take('}')) return;
    do {
        scan.skip_space();
        const std::uint32_t term = read_term(line);
        scan.skip_space();
        scan.expect(':', "behind a term");
        scan.skip_space();
        read_weight(line, term);
        scan.skip_space();
    } while (scan.take(','));
    scan.expect('}', "or ',' behind a weight");
}

std::uint32_t JsonVectorParser::read_term(Line& line) {
    const char* start = line.scan.place();
    const std::string_view name = line.scan.string("a term", scratch_);
    const auto [term, is_new] = vocabulary_.find_or_add(name);
    if (is_new) {
        // Only new terms need the check: equal bytes were checked when they came first.
        if (!is_utf8(name)) line.scan.fail_at(start, "expected a term in UTF-8, got other bytes");
        last_row_.push_back(0);
    }
    if (last_row_[term] == row_) {
        line.scan.fail_at(start, "expected every term once, got " + shown(name) + " again");
    }
    last_row_[term] = row_;
    return term;
}

void JsonVectorParser::read_weight(Line& line, std::uint32_t term) {
    Scanner& scan = line.scan;
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
    assert(terms.size() == weights.size());
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
