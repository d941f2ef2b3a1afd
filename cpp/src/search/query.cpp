#include "segmax/search/query.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace segmax {

namespace {

/// Weights in extended precision: a huge weight times a huge scale must not become infinite.
struct RealTerm {
    std::int64_t term;
    long double weight;
};

std::vector<RealTerm> merged_terms(std::span<const std::int64_t> terms, std::span<const double> weights) {
    std::vector<RealTerm> merged;
    merged.reserve(terms.size());
    for (std::size_t i = 0; i < terms.size(); ++i) {
        if (terms[i] < 0) {
            throw std::invalid_argument("expected term numbers >= 0 in a query, got " + std::to_string(terms[i]) +
                                        " at entry " + std::to_string(i));
        }
        if (!std::isfinite(weights[i]) || weights[i] < 0) {
            throw std::invalid_argument("expected finite query weights >= 0, got " + std::to_string(weights[i]) +
                                        " for term " + std::to_string(terms[i]) +
                                        "; clip negative weights to 0 first if the model produces them");
        }
        if (weights[i] > 0) merged.push_back({terms[i], weights[i]});
    }
    // Stable, so that repeated terms are summed in the order given and the sum does not depend on the platform.
    std::stable_sort(merged.begin(), merged.end(), [](auto& a, auto& b) { return a.term < b.term; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < merged.size(); ++i) {
        if (kept > 0 && merged[kept - 1].term == merged[i].term) {
            merged[kept - 1].weight += merged[i].weight;
        } else {
            merged[kept++] = merged[i];
        }
    }
    merged.resize(kept);
    return merged;
}

/// Multiplies weights by the scales of their terms. Where long double is no longer than double (macOS on arm64,
/// Windows), products near the ends of its range are divided by a power of two, whose exponent is returned; elsewhere
/// that is 0.
int multiply_by_scales(const Lattice& lattice, std::vector<RealTerm>& terms) {
    const auto scale = [&](const RealTerm& t) { return lattice.scale(static_cast<std::uint32_t>(t.term)); };
    if constexpr (std::numeric_limits<long double>::max_exponent <= 2 * std::numeric_limits<double>::max_exponent) {
        constexpr int kFarOut = 900;
        // Infinite sums of repeated terms have a huge exponent, which must not overflow here; they are refused later.
        const auto exponent = [](long double value) {
            return std::clamp(std::ilogb(static_cast<double>(value)), -10 * kFarOut, 10 * kFarOut);
        };
        const auto part = [](long double value, int power) { return std::scalbn(static_cast<double>(value), power); };
        int most = terms.empty() ? 0 : std::numeric_limits<int>::min();
        for (const RealTerm& t : terms) most = std::max(most, exponent(t.weight) + exponent(scale(t)));
        if (std::abs(most) > kFarOut) {
            for (RealTerm& t : terms) {
                const int own = exponent(t.weight), other = exponent(scale(t));
                t.weight = std::scalbn(part(t.weight, -own) * part(scale(t), -other), own + other - most);
            }
            return most;
        }
    }
    for (RealTerm& t : terms) t.weight *= scale(t);
    return 0;
}

/// Keeps the fewest heaviest terms that hold a share of the mass, and returns how many were dropped. A share such as
/// 0.9 is no exact binary number: without the tolerance, 9 of 10 equal terms would fall short of it.
std::uint32_t keep_mass(const Lattice& lattice, double mass, std::vector<RealTerm>& terms) {
    constexpr double kTolerance = 1e-12;
    std::vector<std::pair<double, std::size_t>> heaviest;
    double total = 0;
    for (std::size_t i = 0; i < terms.size(); ++i) {
        const auto most =
            static_cast<double>(terms[i].weight * lattice.largest_code(static_cast<std::uint32_t>(terms[i].term)));
        heaviest.emplace_back(-most, i);
        total += most;
    }
    std::sort(heaviest.begin(), heaviest.end());
    double sum = 0;
    std::size_t kept = 0;
    while (kept < heaviest.size() && sum < (mass - kTolerance) * total) sum -= heaviest[kept++].first;
    heaviest.resize(kept);
    std::sort(heaviest.begin(), heaviest.end(), [](auto& a, auto& b) { return a.second < b.second; });
    const std::size_t before = terms.size();
    for (std::size_t i = 0; i < kept; ++i) terms[i] = terms[heaviest[i].second];
    terms.resize(kept);
    return static_cast<std::uint32_t>(before - kept);
}

std::uint64_t max_score_of(const Lattice& lattice, const std::vector<QueryTerm>& terms) {
    std::uint64_t sum = 0;
    for (const QueryTerm& t : terms) sum += std::uint64_t{t.weight} * lattice.largest_code(t.term);
    return sum;
}

/// Keeps the terms that can add most to a score, and counts the others as dropped.
void keep_heaviest(const Lattice& lattice, std::size_t count, PreparedQuery& query) {
    if (query.terms.size() <= count) return;
    const auto most = [&](const QueryTerm& t) { return std::uint64_t{t.weight} * lattice.largest_code(t.term); };
    query.dropped_terms += static_cast<std::uint32_t>(query.terms.size() - count);
    std::stable_sort(query.terms.begin(), query.terms.end(),
                     [&](const QueryTerm& a, const QueryTerm& b) { return most(a) > most(b); });
    query.terms.resize(count);
    std::sort(query.terms.begin(), query.terms.end(), [](auto& a, auto& b) { return a.term < b.term; });
}

/// Refuses a query whose scores might not fit a double: infinite scores have no order.
PreparedQuery checked_scores(PreparedQuery query) {
    if (!std::isfinite(query.scale) || !std::isfinite(static_cast<double>(query.max_score) * query.scale)) {
        throw std::invalid_argument(
            "expected query weights whose scores fit a double, got scores beyond 1.8e308; divide the weights of the "
            "query by a constant, which changes no ranking");
    }
    return query;
}

}  // namespace

PreparedQuery prepare_query(const Lattice& lattice, std::span<const std::int64_t> terms,
                            std::span<const double> weights, const SearchParams& params) {
    assert(terms.size() == weights.size() && params.query_mass > 0 && params.query_mass <= 1);
    PreparedQuery query;
    std::vector<RealTerm> known = merged_terms(terms, weights);
    std::erase_if(known, [&](RealTerm& t) {
        const bool known_term = lattice.knows(t.term);
        query.unknown_terms += known_term ? 0 : 1;
        return !known_term;
    });
    const int exponent = multiply_by_scales(lattice, known);
    if (params.query_mass < 1.0) query.dropped_terms = keep_mass(lattice, params.query_mass, known);
    bool whole = exponent == 0;
    long double largest = 0;
    for (const RealTerm& t : known) {
        const double scale = lattice.scale(static_cast<std::uint32_t>(t.term));
        whole = whole && scale == 1.0 && t.weight <= kMaxQueryWeight &&
                static_cast<double>(t.weight) == std::floor(static_cast<double>(t.weight));
        largest = std::max(largest, t.weight);
    }
    const auto quantize = [&](double levels) {
        query.terms.clear();
        for (const RealTerm& t : known) {
            // Small enough for a double here; rounding a long double takes half of a short search's time.
            const auto level = static_cast<double>(whole ? t.weight : t.weight / largest * levels);
            const double value = whole ? level : std::max(1.0, std::nearbyint(level));
            query.terms.push_back({static_cast<std::uint32_t>(t.term), static_cast<std::uint32_t>(value)});
        }
        // Never 0, however small the weights: a result has a positive score.
        const auto step = static_cast<double>(largest / levels);
        query.scale = whole ? 1.0 : std::max(std::scalbn(step, exponent), std::numeric_limits<double>::min());
        query.max_score = max_score_of(lattice, query.terms);
        return whole || !query.needs_64_bits();
    };
    // Finer weights make larger sums. Eight-bit codes may give up three bits of weight to stay with the faster
    // 32-bit sums.
    const int fewest_bits = lattice.wide() ? 15 : 12;
    int bits = 15;
    while (bits >= fewest_bits && !quantize(static_cast<double>((1 << bits) - 1))) --bits;
    if (bits < fewest_bits) quantize(kMaxQueryWeight);  // 64-bit kernels take any sum, so keep the finest scale
    if (params.max_terms > 0 && !params.bound_dropped) keep_heaviest(lattice, params.max_terms, query);
    return checked_scores(std::move(query));
}

std::uint64_t most_of(const Index& index, const PreparedQuery& query) {
    std::uint64_t sum = 0;
    for (const QueryTerm& t : query.terms) {
        if (index.has_term(t.term)) sum += std::uint64_t{t.weight} * index.largest_code(t.term);
    }
    return sum;
}

}  // namespace segmax
