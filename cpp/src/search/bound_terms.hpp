// What bounds are made of: the terms of a query, and the step that bounds count in.
//
// Bounds are 16-bit numbers in steps of 2^shift, every part of them rounded up, so that a score s is never above
// bound * 2^shift.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "search/costs.hpp"

namespace segmax {

/// With more terms than these a bound of 16 bits would be made of little else than what is rounded up.
inline constexpr std::size_t kMaxBoundedTerms = 32767;

/// Of terms that are left out of bounds by `bound_mass` or a budget: the share of the most they can add that counts as
/// expected. Chosen on queries of Wikipedia (docs/approximation.md).
inline constexpr double kExpectedShare = .15;

/// The `count` of these numbers with the best bounds, the smaller number first where bounds are equal; ascending. All
/// of them, in their order, where there are no more than that.
template <class Bound>
std::span<std::uint32_t> best_of(std::span<std::uint32_t> numbers, std::size_t count, Bound bound) {
    if (numbers.size() <= count) return numbers;
    std::nth_element(
        numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(count), numbers.end(),
        [&](std::uint32_t a, std::uint32_t b) { return bound(a) != bound(b) ? bound(a) > bound(b) : a < b; });
    numbers = numbers.first(count);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

/// A limit that about `count` bounds reach, not below `least`: that is cheaper to find by counting than by ranking.
/// `limit` is where to begin, reach(limit) how many bounds reach it. There may be more where many bounds are equal, and
/// fewer where `least` is returned.
template <class Reach>
std::uint64_t limit_of_best(std::uint64_t limit, std::uint64_t least, std::size_t count, Reach reach) {
    std::uint64_t above = std::numeric_limits<std::uint16_t>::max();
    std::size_t found = reach(limit);
    while (found < count && limit > least) {
        above = limit;
        limit = std::max(limit * 8 / 10, least);
        found = reach(limit);
    }
    while (found > count + count / 8 && above > limit + 1) {
        const std::uint64_t middle = (above + limit) / 2;
        const std::size_t there = reach(middle);
        if (there >= count) {
            limit = middle;
            found = there;
        } else {
            above = middle;
        }
    }
    return limit;
}

/// These numbers, or the best of them where they are far more than `count`, since many bounds are equal.
template <class Bound>
std::span<std::uint32_t> about_best_of(std::span<std::uint32_t> numbers, std::size_t count, Bound bound) {
    return numbers.size() > count + count / 2 ? best_of(numbers, count, bound) : numbers;
}

template <class Code, class Acc>
class BoundTerms {
public:
    /// For a query of at most kMaxBoundedTerms. `affordable` is what making its bounds may cost; less than all of the
    /// query's `mass` is enough where a budget limits the search.
    explicit BoundTerms(Context<Code, Acc>& context, double affordable = std::numeric_limits<double>::infinity(),
                        double mass = 1.0)
        : context_(context), s_(context.scratch.terms), first_(context.terms().data()) {
        const std::size_t num_terms = context.terms().size();
        assert(num_terms <= kMaxBoundedTerms);
        std::uint64_t most = num_terms;  // every part may be rounded up by one
        for (const auto& term : context.terms()) most += term.most();
        // The smallest step with which no sum of rounded parts passes 16 bits.
        while ((most >> shift_) + num_terms > std::numeric_limits<std::uint16_t>::max()) ++shift_;
        for (const auto& term : context.terms()) most_ = static_cast<std::uint16_t>(most_ + steps16(term.most()));
        drop_lightest(affordable, mass);
        s_.heads.clear();
        s_.tails.clear();
        for (const auto& term : context.terms()) {
            if (term.head) {
                s_.heads.push_back({&term, {}});
            } else {
                s_.tails.push_back(&term);
            }
        }
        // The heaviest first: their real scores decide most blocks.
        std::stable_sort(s_.heads.begin(), s_.heads.end(),
                         [](const auto& a, const auto& b) { return a.term->most() > b.term->most(); });
        for (auto& head : s_.heads) {
            for (std::uint32_t level = 0; level < kNumLevels; ++level) {
                head.added[level] = is_dropped(*head.term) ? rest_of(*head.term) : added_by(*head.term, level);
            }
        }
    }

    /// All head terms, the heaviest first, with what their levels stand for in a bound.
    std::span<const BoundedHead<Code>> heads() const { return s_.heads; }
    std::span<const TermView<Code>* const> tails() const { return s_.tails; }
    /// Whether a term is in no bound but in what all bounds start with, which is `floor`.
    bool is_dropped(const TermView<Code>& term) const {
        return s_.dropped[static_cast<std::size_t>(&term - first_)] != 0;
    }
    std::size_t num_bounded() const {
        return s_.dropped.size() - static_cast<std::size_t>(std::count(s_.dropped.begin(), s_.dropped.end(), 1));
    }
    std::uint16_t floor() const { return floor_; }
    std::uint32_t shift() const { return shift_; }
    /// A bound of any block.
    std::uint16_t most() const { return most_; }
    /// Whether terms were dropped because of what they cost.
    bool is_cut() const { return is_cut_; }

    /// A score in steps, rounded up: what is added to bounds, or compared with them.
    std::uint64_t steps(std::uint64_t score) const { return (score + (std::uint64_t{1} << shift_) - 1) >> shift_; }
    std::uint64_t score_of(std::uint64_t bound) const { return bound << shift_; }
    /// What a level of a term adds.
    std::uint16_t added_by(const TermView<Code>& term, std::uint32_t level) const {
        return steps16(std::uint64_t{term.weight} * term.code_of(level));
    }
    /// The steps of what one term adds, which always fit.
    std::uint16_t steps16(std::uint64_t score) const { return static_cast<std::uint16_t>(steps(score)); }

    /// Fills `rows` with a row of each head term that is not dropped: row(term) says where its levels are.
    template <class Row>
    void open_rows(std::vector<LevelRow>& rows, Row row) const {
        rows.clear();
        for (const auto& head : s_.heads) {
            if (!is_dropped(*head.term)) rows.push_back(level_row(head.added, row(*head.term)));
        }
    }

    static LevelRow level_row(const std::uint16_t* added, const std::uint8_t* levels) {
        LevelRow row;
        row.levels = levels;
        for (std::size_t level = 0; level < kNumLevels; ++level) {
            row.added[level] = added[level];
            row.low[level] = static_cast<std::uint8_t>(added[level]);
            row.high[level] = static_cast<std::uint8_t>(added[level] >> 8);
        }
        return row;
    }

private:
    /// What stands for a dropped term in all bounds.
    std::uint16_t rest_of(const TermView<Code>& term) const {
        return steps16(static_cast<std::uint64_t>(std::ceil(share_ * static_cast<double>(term.most()))));
    }

    /// The lightest terms beyond max_terms, bound_mass or what is affordable are no part of bounds, but of what all
    /// bounds start with: in full for max_terms, so that nothing is lost, else as expected.
    void drop_lightest(double affordable, double enough) {
        const SearchParams& params = context_.params;
        const std::size_t num_terms = context_.terms().size();
        s_.dropped.assign(num_terms, 0);
        const bool counted = params.bound_dropped && params.max_terms > 0 && params.max_terms < num_terms;
        if (!counted && params.bound_mass == 1.0 && std::isinf(affordable) && enough == 1.0) return;
        s_.by_most.clear();
        double total = 0;
        for (const auto& term : context_.terms()) {
            s_.by_most.push_back(&term);
            total += static_cast<double>(term.most());
        }
        std::stable_sort(s_.by_most.begin(), s_.by_most.end(),
                         [](const auto* a, const auto* b) { return a->most() > b->most(); });
        double mass = 0;
        double spent = 0;
        for (std::size_t i = 0; i < num_terms; ++i) {
            const TermView<Code>& term = *s_.by_most[i];
            spent += bound_cost(context_, term);
            is_cut_ = is_cut_ || (i > 0 && spent > affordable) || mass >= enough * total;
            const bool expected = is_cut_ || mass >= params.bound_mass * total;
            share_ = expected ? kExpectedShare : share_;
            if (expected || (counted && i >= params.max_terms))
                s_.dropped[static_cast<std::size_t>(&term - first_)] = 1;
            mass += static_cast<double>(term.most());
        }
        for (const auto& term : context_.terms()) {
            if (is_dropped(term)) floor_ = static_cast<std::uint16_t>(floor_ + rest_of(term));
        }
    }

    Context<Code, Acc>& context_;
    TermBuffers<Code>& s_;
    const TermView<Code>* first_;
    std::uint32_t shift_ = 0;
    std::uint16_t floor_ = 0;
    std::uint16_t most_ = 0;
    bool is_cut_ = false;
    double share_ = 1.0;  // of what dropped terms can add
};

}  // namespace segmax
