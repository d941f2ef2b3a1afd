// From real weights to integers, and the sums that come of them.
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "make_index.hpp"
#include "segmax/search/search.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

/// Row 0 has every term at the largest code, row d the terms whose number is no multiple of d + 1; the last term
/// occurs nowhere.
template <class Code>
Collection<Code> full_documents(std::uint32_t num_terms, std::uint32_t num_docs) {
    Collection<Code> made;
    made.num_terms = num_terms + 1;
    made.num_segments = 3;
    for (std::uint32_t d = 0; d < num_docs; ++d) {
        for (std::uint32_t t = 0; t < num_terms; ++t) {
            if (d == 0 || t % (d + 1) != 0) made.add_entry(t, std::numeric_limits<Code>::max());
        }
        made.end_document(d % 4, d % 3);
    }
    return made;
}

/// The first n terms, all with the same weight.
PreparedQuery first_terms(const Index& index, std::size_t n, double weight) {
    std::vector<std::int64_t> terms(n);
    std::iota(terms.begin(), terms.end(), 0);
    return prepare_query(index, terms, std::vector<double>(n, weight));
}

PreparedQuery prepare(const Index& index, std::vector<std::int64_t> terms, std::vector<double> weights) {
    return prepare_query(index, terms, weights);
}

SearchParams with_mass(double mass) {
    SearchParams params;
    params.query_mass = mass;
    return params;
}

void check_terms(const PreparedQuery& query, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& expected) {
    std::vector<std::uint32_t> terms, weights, expected_terms, expected_weights;
    for (const QueryTerm& t : query.terms) {
        terms.push_back(t.term);
        weights.push_back(t.weight);
    }
    for (const auto& [term, weight] : expected) {
        expected_terms.push_back(term);
        expected_weights.push_back(weight);
    }
    CHECK_EQ(terms, expected_terms);
    CHECK_EQ(weights, expected_weights);
}

/// The exact sum of n products, wider than anything the core uses.
std::string exact_sum(std::size_t n, std::uint64_t weight, std::uint64_t code) {
    unsigned __int128 sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += static_cast<unsigned __int128>(weight) * code;
    std::string digits;
    for (; sum > 0; sum /= 10) digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(sum % 10)));
    return digits;
}

}  // namespace

// Repeated terms are summed, zeros dropped, terms put in ascending order, and whole weights kept as they are.
TEST(query_merges_terms_and_keeps_whole_weights) {
    const Indexed<std::uint8_t> made(full_documents<std::uint8_t>(20, 4));
    const PreparedQuery query = prepare(made.index, {7, 3, 7, 5, 3, 9}, {2, 32766, 40, 0, 1, 1});
    check_terms(query, {{3, 32767}, {7, 42}, {9, 1}});
    CHECK_EQ(query.scale, 1.0);
    CHECK_EQ(query.unknown_terms, 0U);
    CHECK_EQ(query.max_score, (32767ULL + 42 + 1) * 255);
    CHECK(!query.needs_64_bits());
}

// Terms beyond the vocabulary or without postings are counted once each, unless their weight is 0.
TEST(query_counts_unknown_terms) {
    const Indexed<std::uint8_t> made(full_documents<std::uint8_t>(20, 4));
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    const PreparedQuery query = prepare(made.index, {20, 21, 21, huge, 4, 30, 1LL << 32}, {1, 2, 3, 1, 5, 0, 1});
    check_terms(query, {{4, 5}});
    CHECK_EQ(query.unknown_terms, 4U);
    const PreparedQuery none = prepare(made.index, {}, {});
    CHECK(none.terms.empty());
    CHECK_EQ(none.max_score, 0U);
    const PreparedQuery nothing_known = prepare(made.index, {20, 5}, {0.5, 0});
    CHECK(nothing_known.terms.empty());
    CHECK_EQ(nothing_known.unknown_terms, 1U);
}

// Other weights are scaled so that the largest gets 15 bits, rounded, and a positive weight never becomes 0.
TEST(query_scales_to_15_bits) {
    const Indexed<std::uint8_t> made(full_documents<std::uint8_t>(20, 4));
    const PreparedQuery query = prepare(made.index, {0, 1, 2, 3}, {1.5, 0.75, 1e-30, 1.5 / 32767 * 2.4});
    check_terms(query, {{0, 32767}, {1, 16384}, {2, 1}, {3, 2}});
    CHECK_EQ(query.scale, 1.5 / 32767);
    // A whole weight that 15 bits do not hold is scaled as well.
    const PreparedQuery large = prepare(made.index, {0, 1}, {65534, 2});
    check_terms(large, {{0, 32767}, {1, 1}});
    CHECK_EQ(large.scale, 2.0);
}

// The scale of each term is part of its weight, and takes whole weights to 15 bits.
TEST(query_folds_in_term_scales) {
    Indexed<std::uint8_t> made(full_documents<std::uint8_t>(20, 4));
    made.parts.built.term_scale[1] = 0.5;
    made.parts.built.term_scale[2] = 4.0;
    const Index index(made.parts.view());
    const PreparedQuery query = prepare(index, {0, 1, 2}, {2, 2, 2});
    check_terms(query, {{0, 8192}, {1, 4096}, {2, 32767}});
    CHECK_EQ(query.scale, 8.0 / 32767);
    CHECK_EQ(prepare(index, {0}, {2}).scale, 1.0);
}

// Products too small for a double keep their proportions, also where no longer type is there to hold them. Those that
// are too large are refused.
TEST(query_takes_tiny_products) {
    Indexed<std::uint8_t> made(full_documents<std::uint8_t>(20, 4));
    for (const std::size_t term : {0, 1, 2}) made.parts.built.term_scale[term] = 1e-100;
    made.parts.built.term_scale[3] = 1e-250;
    made.parts.built.term_scale[4] = 1e100;
    const Index index(made.parts.view());
    check_terms(prepare(index, {0, 1, 2}, {1e-250, 2.5e-251, 1e-300}), {{0, 32767}, {1, 8192}, {2, 1}});
    check_terms(prepare(index, {0, 3}, {1e-250, 1e-250}), {{0, 32767}, {3, 1}});
    check_terms(prepare(index, {0, 1}, {1e300, 5e299}), {{0, 32767}, {1, 16384}});
    CHECK_THROWS(prepare(index, {0, 4}, {1e300, 1e300}), std::invalid_argument);
}

// With 8-bit codes weights lose up to 3 bits where that keeps sums in 31, and none where it would not.
TEST(query_reduces_bits_for_32_bit_sums) {
    const Indexed<std::uint8_t> made(full_documents<std::uint8_t>(2100, 2));
    const std::pair<std::size_t, std::uint32_t> cases[] = {{1, 32767},    {257, 32767}, {258, 16383}, {514, 16383},
                                                           {515, 8191},   {1028, 8191}, {1029, 4095}, {2056, 4095},
                                                           {2057, 32767}, {2100, 32767}};
    for (const auto& [n, weight] : cases) {
        NOTE("terms " << n);
        const PreparedQuery query = first_terms(made.index, n, 0.5);
        CHECK_EQ(query.terms.size(), n);
        CHECK_EQ(query.terms.back().weight, weight);
        CHECK_EQ(query.scale, 0.5 / weight);
        CHECK_EQ(query.max_score, std::uint64_t{n} * weight * 255);
        CHECK_EQ(query.needs_64_bits(), n > 2056);
    }
    // Whole weights are never changed, so that they need 64 bits earlier.
    CHECK(!first_terms(made.index, 257, 32767).needs_64_bits());
    CHECK(first_terms(made.index, 258, 32767).needs_64_bits());
    CHECK_EQ(first_terms(made.index, 258, 32767).scale, 1.0);
}

// With 16-bit codes weights keep 15 bits, and sums pass 31 bits from the second term on.
TEST(query_keeps_bits_for_16_bit_codes) {
    const Indexed<std::uint16_t> made(full_documents<std::uint16_t>(300, 2));
    for (const std::size_t n : {1, 2, 257}) {
        const PreparedQuery query = first_terms(made.index, n, 0.5);
        CHECK_EQ(query.terms.back().weight, kMaxQueryWeight);
        CHECK_EQ(query.needs_64_bits(), n > 1);
    }
}

// Of a share of the mass the fewest heaviest terms are kept, equal ones from the first, and the others are counted.
TEST(query_keeps_a_share_of_the_mass) {
    const Indexed<std::uint8_t> made(full_documents<std::uint8_t>(20, 4));
    const std::vector<std::int64_t> terms{0, 1, 2, 3, 4};
    const std::vector<double> weights{1, 5, 2, 5, 7};  // 20 in all, times the same largest code
    const auto kept = [&](double mass) { return prepare_query(made.index, terms, weights, with_mass(mass)); };
    check_terms(kept(0.01), {{4, 7}});
    check_terms(kept(0.35), {{4, 7}});
    check_terms(kept(0.36), {{1, 5}, {4, 7}});
    check_terms(kept(0.6), {{1, 5}, {4, 7}});
    check_terms(kept(0.85), {{1, 5}, {3, 5}, {4, 7}});
    check_terms(kept(0.95), {{1, 5}, {2, 2}, {3, 5}, {4, 7}});
    CHECK_EQ(kept(0.95).dropped_terms, 1U);
    CHECK_EQ(kept(0.01).dropped_terms, 4U);
    CHECK_EQ(kept(1.0).terms.size(), 5U);
    CHECK_EQ(kept(1.0).dropped_terms, 0U);
    // 9 of 10 equal terms are 0.9 of the mass, though 0.9 is no binary number.
    const std::vector<std::int64_t> ten{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    CHECK_EQ(prepare_query(made.index, ten, std::vector<double>(10, 1.0), with_mass(0.9)).terms.size(), 9U);
}

// A negative term number, and a weight that is negative, infinite or no number, are errors, even of unknown terms.
TEST(query_rejects_impossible_input) {
    const Indexed<std::uint8_t> made(full_documents<std::uint8_t>(20, 4));
    constexpr double infinity = std::numeric_limits<double>::infinity();
    for (const std::int64_t term : {3, 20, 1000}) {
        for (const double weight : {-1.0, -1e-300, infinity, -infinity, std::nan("")}) {
            NOTE("term " << term << ", weight " << weight);
            CHECK_THROWS(prepare(made.index, {1, term}, {1, weight}), std::invalid_argument);
        }
    }
    CHECK_THROWS(prepare(made.index, {1, -1}, {1, 1}), std::invalid_argument);
    constexpr double largest = std::numeric_limits<double>::max();
    CHECK_THROWS(prepare(made.index, {1, 2}, {largest, largest}), std::invalid_argument);  // infinite scores
    CHECK_THROWS(prepare(made.index, {std::numeric_limits<std::int64_t>::min()}, {0}), std::invalid_argument);
}

// Sums of up to 30,000 largest weights and codes are exact in every method, with 8 and 16 bits.
TEST(query_sums_are_exact) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        NOTE("code bytes " << sizeof(Code));
        const Indexed<Code> made(full_documents<Code>(30000, 9));
        for (const std::size_t n : {1, 257, 514, 2057, 30000}) {
            for (const double weight : {32767.0, 0.7, 1.0}) {
                const PreparedQuery query = first_terms(made.index, n, weight);
                const Ranking expected = rank_all(made.docs.scores(query));
                const std::uint64_t integer = query.terms[0].weight;
                for (const Method method :
                     {Method::exhaustive, Method::maxscore, Method::anytime, Method::sequential, Method::asc}) {
                    for (const DocumentMethod documents : {DocumentMethod::blocks, DocumentMethod::maxscore}) {
                        NOTE("terms " << n << ", weight " << weight << ", method " << show(method));
                        SearchParams params;
                        params.method = method;
                        params.hooks.documents = documents;
                        params.trace = true;
                        const SearchResult result = search(made.index, query, 20, params);
                        CHECK_EQ(result.rows, expected.rows);
                        CHECK_EQ(result.scores, expected.scores);
                        CHECK_EQ(show(result.scores.at(0)), exact_sum(n, integer, std::numeric_limits<Code>::max()));
                    }
                }
                CHECK_EQ(show(query.max_score), exact_sum(n, integer, std::numeric_limits<Code>::max()));
            }
        }
    });
}
