// What must hold between the arrays of a call before the core, which trusts lengths and offsets, may read them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace segmax::bindings {

inline void require(bool holds, const std::string& message) {
    if (!holds) throw std::invalid_argument(message);
}

/// Refuses two arrays with an entry each for the same things that are not of one length.
inline void require_one_length(const char* first, std::size_t first_size, const char* second, std::size_t second_size) {
    if (first_size == second_size) return;  // the message is made only where it is needed: searches take microseconds
    throw std::invalid_argument(std::string("expected ") + first + " and " + second + " of one length, got " +
                                std::to_string(first_size) + " and " + std::to_string(second_size));
}

/// Refuses offsets that do not ascend, or that span another number of entries. `first` is what they start from.
template <class Offset>
void require_offsets(const char* name, std::span<const Offset> offsets, std::size_t entries, Offset first = 0) {
    const bool whole = !offsets.empty() && offsets.front() == first && std::is_sorted(offsets.begin(), offsets.end()) &&
                       static_cast<std::size_t>(offsets.back() - first) == entries;
    require(whole, std::string("expected ") + name + " to ascend over all " + std::to_string(entries) +
                       " entries, it does not");
}

/// Refuses numbers that are not below a limit.
template <class Number>
void require_below(const char* name, std::span<const Number> numbers, std::size_t limit) {
    const auto largest = std::max_element(numbers.begin(), numbers.end());
    if (largest == numbers.end() || std::cmp_less(*largest, limit)) return;
    throw std::invalid_argument(std::string("expected ") + name + " below " + std::to_string(limit) + ", got " +
                                std::to_string(*largest));
}

/// a * b, refused where an array of so many entries of 8 bytes could not be addressed.
inline std::size_t checked_product(std::size_t a, std::size_t b) {
    std::size_t product = 0;
    require(
        !__builtin_mul_overflow(a, b, &product) && product <= PTRDIFF_MAX / sizeof(std::uint64_t),
        "expected an array that fits into memory, got " + std::to_string(a) + " x " + std::to_string(b) + " entries");
    return product;
}

}  // namespace segmax::bindings
