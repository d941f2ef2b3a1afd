// Every way to search against brute force over the documents.
#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "make_index.hpp"
#include "search_variants.hpp"
#include "segmax/base/interrupt.hpp"
#include "segmax/index/documents.hpp"
#include "segmax/search/search.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

/// All variants at many k, for queries short and long, of small weights (many ties) and of the largest.
template <class Code>
void check_all_variants(const Indexed<Code>& made, const std::vector<std::size_t>& query_sizes, unsigned seed) {
    Random random(seed);
    const std::size_t docs = made.docs.num_docs();
    for (const std::size_t terms : query_sizes) {
        for (const std::uint32_t largest_weight : {1U, 3U, kMaxQueryWeight}) {
            const PreparedQuery query = random_query(made.index, random, terms, largest_weight);
            const Ranking ranking = rank_all(made.docs.scores(query));
            for (const std::size_t k : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{10},
                                        std::size_t{101}, docs - 1, docs, docs + 5}) {
                for (const SearchParams& params : safe_variants()) {
                    check_result(made.index, query, ranking, k, params);
                }
            }
        }
    }
}

bool same_entry(const TraceEntry& a, const TraceEntry& b, bool same_bounds) {
    return a.cluster == b.cluster && a.decision == b.decision && a.bound_sum == b.bound_sum &&
           a.threshold == b.threshold && a.threshold_row == b.threshold_row &&
           (!same_bounds || (a.max_bound == b.max_bound && a.segment_sum == b.segment_sum));
}

/// Checks that scores are those of the rows, and that neither one of them nor the mean of the first ones is below
/// `factor` times what the best results have there.
void check_loss(const SearchResult& result, const std::vector<std::uint64_t>& scores, const Ranking& best,
                double factor) {
    constexpr double kRounding = 1 - 1e-12;
    CHECK_EQ(result.rows.size(), best.rows.size());
    double sum = 0;
    double best_sum = 0;
    for (std::size_t i = 0; i < std::min(result.rows.size(), best.rows.size()); ++i) {
        CHECK_EQ(result.scores[i], scores[result.rows[i]]);
        CHECK(static_cast<double>(result.scores[i]) >= factor * static_cast<double>(best.scores[i]) * kRounding);
        sum += static_cast<double>(result.scores[i]);
        best_sum += static_cast<double>(best.scores[i]);
        CHECK(sum >= factor * best_sum * kRounding);
    }
}

/// Stops at the n-th poll.
std::function<bool()> stop_at(int n) {
    return [left = n]() mutable { return --left == 0; };
}

/// Random values over a share of an array's bytes.
struct Damage {
    const char* name;
    std::function<void(std::span<std::byte>, Random&)> apply;
};

const Damage kDamages[] = {
    {"all random",
     [](auto bytes, Random& random) {
         for (auto& b : bytes) b = static_cast<std::byte>(random());
     }},
    {"some random",
     [](auto bytes, Random& random) {
         for (auto& b : bytes) b = draw(random, 0, 15) == 0 ? static_cast<std::byte>(random()) : b;
     }},
    {"everything twice",  // lists that ascend, but name the same again and again
     [](auto bytes, Random&) {
         for (std::size_t i = 8; i < bytes.size(); ++i) bytes[i] = bytes[i % 8];
     }},
    {"all ones", [](auto bytes, Random&) { std::fill(bytes.begin(), bytes.end(), std::byte{0xFF}); }},
    {"all zero", [](auto bytes, Random&) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); }},
};

template <class T>
std::span<std::byte> bytes_of(PaddedVector<T>& array) {
    return std::as_writable_bytes(std::span<T>(array.data(), array.size()));
}

struct DamagedArray {
    const char* name;
    std::span<std::byte> bytes;
};

/// What the constructor of Index does not check.
template <class Code>
std::vector<DamagedArray> unchecked_arrays(Parts<Code>& parts) {
    std::vector<DamagedArray> arrays;
    IndexArrays view = parts.view();
    each_term_array(parts.built, view,
                    [&](const char* name, auto& array, auto&) { arrays.push_back({name, bytes_of(array)}); });
    return arrays;
}

/// Calls visit with an index for each damage of each array, and of all of them at once.
template <class Code, class Visit>
void each_damaged_index(const Parts<Code>& whole, Visit visit) {
    Random random(41);
    constexpr std::size_t kArrays = 18;
    for (const Damage& damage : kDamages) {
        for (std::size_t target = 0; target <= kArrays; ++target) {
            Parts<Code> parts = whole;
            const auto arrays = unchecked_arrays(parts);
            CHECK_EQ(arrays.size(), kArrays);
            NOTE((target == kArrays ? "every array" : arrays[target].name) << ' ' << damage.name);
            for (std::size_t i = 0; i < kArrays; ++i) {
                CHECK(!arrays[i].bytes.empty());
                if (i == target || target == kArrays) damage.apply(arrays[i].bytes, random);
            }
            const Index index(parts.view());
            visit(index, random);
        }
    }
}

std::vector<std::int64_t> numbers_of(const PreparedQuery& query) {
    std::vector<std::int64_t> terms;
    for (const QueryTerm& t : query.terms) terms.push_back(t.term);
    return terms;
}

std::vector<double> weights_of(const PreparedQuery& query) {
    std::vector<double> weights;
    for (const QueryTerm& t : query.terms) weights.push_back(t.weight);
    return weights;
}

/// Whatever is in the arrays, results are at most k rows of the index, best first.
void check_plausible(const Index& index, const SearchResult& result, std::size_t k) {
    CHECK(result.rows.size() <= k);
    CHECK(std::all_of(result.rows.begin(), result.rows.end(), [&](Row row) { return row < index.num_docs(); }));
    CHECK(std::is_sorted(result.scores.rbegin(), result.scores.rend()));
}

/// Whatever is in the postings, documents have ascending terms and positive codes.
template <class Code>
void check_documents(const Index& index, const DocumentRange<Code>& found) {
    CHECK_EQ(found.indptr.size(), found.rows.size() + 1);
    CHECK_EQ(static_cast<std::size_t>(found.indptr.back()), found.terms.size());
    CHECK(std::all_of(found.codes.begin(), found.codes.end(), [](Code code) { return code > 0; }));
    for (std::size_t d = 0; d < found.rows.size(); ++d) {
        for (auto i = static_cast<std::size_t>(found.indptr[d]); i < static_cast<std::size_t>(found.indptr[d + 1]);
             ++i) {
            CHECK(found.terms[i] < index.num_terms());
            CHECK(i == static_cast<std::size_t>(found.indptr[d]) || found.terms[i - 1] < found.terms[i]);
        }
    }
}

/// Every method, and everything else that reads postings, over a damaged index.
void use_damaged(const Index& index, Random& random) {
    for (const std::size_t terms : {3, 25, 60}) {
        const PreparedQuery query = random_query(index, random, terms, terms == 25 ? 50 : kMaxQueryWeight);
        for (SearchParams params : safe_variants()) {
            const auto& [mu, eta] = kFactors[draw(random, 0, std::size(kFactors) - 1)];
            params.mu = mu;
            params.eta = eta;
            params.watch = static_cast<Position>(draw(random, 0, index.num_positions() - 1));
            if (params.method == Method::asc && draw(random, 0, 1) == 0) {
                params.max_clusters = static_cast<std::uint32_t>(draw(random, 1, 9));
            }
            if (draw(random, 0, 3) == 0) {
                params.mask = make_mask(index, [&, share = draw(random, 0, 8)](Row) {
                    return draw(random, 0, share == 0 ? 99 : 7) < std::max<std::uint64_t>(share, 1);
                });
            }
            if (draw(random, 0, 3) == 0) params.floor = Floor{static_cast<double>(draw(random, 1, 1000)), kNoRow};
            const std::size_t k = draw(random, 0, 1) == 0 ? 3 : 60;
            NOTE("k " << k << ", " << describe(params));
            check_plausible(index, search(index, query, k, params), k);
        }
        cluster_bounds(index, query);
        CHECK(ceiling(index, query) <= query.max_score);
    }
    std::vector<Position> positions(index.num_positions());
    std::iota(positions.begin(), positions.end(), Position{0});
    CHECK_EQ(document_vectors(index, positions).indptr.size(), positions.size() + 1);
    if (index.arrays().code_bytes == 1) {
        check_documents(index, document_range<std::uint8_t>(index, 3, index.num_positions() - 1));
    } else {
        check_documents(index, document_range<std::uint16_t>(index, 3, index.num_positions() - 1));
    }
}

template <class Code>
Collection<Code> damage_collection() {
    auto docs =
        random_collection<Code>({.docs = 900, .terms = 120, .clusters = 100, .terms_per_doc = 5, .head_ratio = 1});
    docs.exact_segments = true;
    return docs;
}

}  // namespace

// With 8-bit codes every method, order and switch answers like brute force, ties by row, for any k.
TEST(search_equals_brute_force_8_bits) {
    for (const Shape& shape : shapes<std::uint8_t>()) {
        NOTE("shape " << shape.seed);
        const Indexed<std::uint8_t> made(random_collection<std::uint8_t>(shape));
        check_all_variants(made, {1, 3, 12, 40}, shape.seed);
    }
}

// A collection with more blocks than 16 bits can name is no different.
TEST(search_equals_brute_force_across_zones) {
    const Indexed<std::uint8_t> made(zoned_collection<std::uint8_t>());
    CHECK_EQ(made.index.num_zones(), 2U);
    check_all_variants(made, {12}, 1);
}

// With 16-bit codes, where sums soon need 64 bits, they do the same.
TEST(search_equals_brute_force_16_bits) {
    for (const Shape& shape : shapes<std::uint16_t>()) {
        NOTE("shape " << shape.seed);
        const Indexed<std::uint16_t> made(random_collection<std::uint16_t>(shape));
        check_all_variants(made, {1, 3, 12, 40}, shape.seed);
    }
}

// Queries of hundreds of terms, in 32 and in 64 bits, are answered like brute force as well.
TEST(search_equals_brute_force_long_queries) {
    const Indexed<std::uint8_t> made(random_collection<std::uint8_t>(
        {.docs = 150, .terms = 700, .clusters = 2, .terms_per_doc = 250, .largest_code = 255}));
    Random random(42);
    CHECK(random_query(made.index, random, 700, kMaxQueryWeight).needs_64_bits());
    check_all_variants(made, {700}, 42);
}

// Where all documents are equal, the smallest rows win, in every method.
TEST(search_breaks_ties_by_row) {
    Collection<std::uint8_t> docs;
    docs.num_terms = 2;
    docs.num_segments = 2;
    for (std::uint32_t d = 0; d < 333; ++d) {
        docs.add_entry(0, 5);
        docs.add_entry(1, 5);
        docs.end_document(d * 31 % 17, d % 2);
    }
    const Indexed<std::uint8_t> made(std::move(docs));
    check_all_variants(made, {2}, 7);
}

// score_positions gives every document its exact score and every hole 0.
TEST(search_scores_positions) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(damage_collection<Code>());
        Random random(43);
        std::vector<Position> positions(made.index.num_positions());
        std::iota(positions.begin(), positions.end(), Position{0});
        for (const std::size_t terms : {1, 5, 60}) {
            const PreparedQuery query = random_query(made.index, random, terms, kMaxQueryWeight);
            const std::vector<std::uint64_t> by_row = made.docs.scores(query);
            std::vector<std::uint64_t> expected;
            for (const Position p : positions) {
                const Row row = made.index.row_at(p);
                expected.push_back(row == kNoRow ? 0 : by_row[row]);
            }
            CHECK_EQ(score_positions(made.index, query, positions), expected);
        }
    });
}

// With max_terms a search answers for the query of its heaviest terms; with bound_dropped for all of them.
TEST(search_max_terms) {
    const Indexed<std::uint8_t> made(random_collection<std::uint8_t>({.docs = 2000, .clusters = 30, .head_ratio = 1}));
    Random random(51);
    for (int round = 0; round < 5; ++round) {
        const PreparedQuery query = random_query(made.index, random, 12, 50);
        for (SearchParams params : safe_variants()) {
            for (const std::uint32_t max_terms : {1U, 4U, 11U, 12U, 100U}) {
                PreparedQuery heaviest = query;
                const auto most = [&](const QueryTerm& t) { return t.weight * made.index.largest_code(t.term); };
                std::stable_sort(heaviest.terms.begin(), heaviest.terms.end(),
                                 [&](auto& a, auto& b) { return most(a) > most(b); });
                heaviest.terms.resize(std::min<std::size_t>(max_terms, query.terms.size()));
                params.max_terms = max_terms;
                for (const bool bound_dropped : {false, true}) {
                    params.bound_dropped = bound_dropped;
                    const PreparedQuery kept = prepare_query(made.index, numbers_of(query), weights_of(query), params);
                    const std::size_t dropped = query.terms.size() - heaviest.terms.size();
                    const Ranking ranking = rank_all(made.docs.scores(bound_dropped ? query : heaviest));
                    CHECK_EQ(kept.terms.size(), bound_dropped ? query.terms.size() : heaviest.terms.size());
                    CHECK_EQ(check_result(made.index, kept, ranking, 10, params).stats.dropped_terms, dropped);
                }
            }
        }
    }
}

// A query of more terms than steps in a bound is answered, too.
TEST(search_with_very_many_terms) {
    Collection<std::uint8_t> docs;
    docs.num_terms = 70'000;
    docs.head_ratio = 1;
    Random random(52);
    for (std::uint32_t d = 0; d < 400; ++d) {
        docs.add_entry(d % 3, static_cast<std::uint8_t>(draw(random, 1, 255)));
        for (std::uint32_t term = 3 + d; term < docs.num_terms; term += 400) {
            docs.add_entry(term, static_cast<std::uint8_t>(draw(random, 1, 255)));
        }
        docs.end_document(d % 7, 0);
    }
    const Indexed<std::uint8_t> made(std::move(docs));
    std::vector<std::int64_t> terms(70'000);
    std::iota(terms.begin(), terms.end(), 0);
    const PreparedQuery query = prepare_query(made.index, terms, std::vector<double>(terms.size(), 1.0));
    CHECK_EQ(query.terms.size(), terms.size());
    const Ranking ranking = rank_all(made.docs.scores(query));
    for (const SearchParams& params : safe_variants()) check_result(made.index, query, ranking, 10, params);
}

// The lazy queue decides about the same clusters in the same order by the same numbers as the plain one, for any
// factors; by BoundSum it only reads fewer segments.
TEST(search_lazy_and_plain_traces_are_equal) {
    for (const Shape& shape : shapes<std::uint8_t>()) {
        const Indexed<std::uint8_t> made(random_collection<std::uint8_t>(shape));
        Random random(shape.seed);
        for (const std::size_t terms : {1, 4, 12, 12}) {
            const PreparedQuery query = random_query(made.index, random, terms, 9);
            for (const auto& [mu, eta] : kFactors) {
                for (SearchParams params : safe_variants()) {
                    if (params.method != Method::sequential || !params.trace || !params.hooks.lazy) continue;
                    params.mu = mu;
                    params.eta = eta;
                    for (const std::size_t k : {1, 5, 40}) {
                        NOTE("shape " << shape.seed << ", k " << k << ", " << describe(params));
                        SearchParams plain = params;
                        plain.hooks.lazy = false;
                        const SearchResult a = search(made.index, query, k, params);
                        const SearchResult b = search(made.index, query, k, plain);
                        CHECK_EQ(a.rows, b.rows);
                        CHECK_EQ(a.scores, b.scores);
                        CHECK_EQ(a.trace.size(), b.trace.size());
                        const bool same_bounds = params.hooks.cluster_order == ClusterOrder::max_bound;
                        CHECK(std::equal(a.trace.begin(), a.trace.end(), b.trace.begin(), b.trace.end(),
                                         [&](auto& x, auto& y) { return same_entry(x, y, same_bounds); }));
                    }
                }
            }
        }
    }
}

// With factors below 1 scores stay exact, and the score at every rank is at least the smaller factor times the true
// one; and so is, as Proposition 3 says, the mean of the first scores, however many.
TEST(search_factors_bound_the_loss) {
    for (const Shape& shape : shapes<std::uint8_t>()) {
        const Indexed<std::uint8_t> made(random_collection<std::uint8_t>(shape));
        Random random(shape.seed);
        for (const std::size_t terms : {2, 8}) {
            const PreparedQuery query = random_query(made.index, random, terms, 20);
            const std::vector<std::uint64_t> scores = made.docs.scores(query);
            const Ranking ranking = rank_all(scores);
            const auto check = [&](SearchParams params, double mu, double eta) {
                params.mu = mu;
                params.eta = eta;
                for (const std::size_t k : {1, 10}) {
                    NOTE("shape " << shape.seed << ", k " << k << ", " << describe(params));
                    const SearchResult result = search(made.index, query, k, params);
                    check_loss(result, scores, ranking.first(k), loss_factor(params));
                }
            };
            for (const SearchParams& params : safe_variants()) {
                for (const auto& [mu, eta] : kFactors) check(params, mu, eta);
                if (params.method != Method::asc) continue;
                for (const auto& [mu, eta] : kEngineFactors) check(params, mu, eta);
            }
        }
    }
}

// A trace names each cluster once; what it visited, pruned and tied is what the counters say. The engine does not tell
// clusters without any term of the query, which its counters hold.
TEST(search_traces_match_counters) {
    const Indexed<std::uint8_t> made(damage_collection<std::uint8_t>());
    Random random(44);
    for (const std::size_t terms : {1, 3, 10}) {
        const PreparedQuery query = random_query(made.index, random, terms, 9);
        const std::vector<std::uint64_t> sums = cluster_bounds(made.index, query).bound_sum;
        const auto num_zero = static_cast<std::uint64_t>(std::count(sums.begin(), sums.end(), 0U));
        for (const auto& [mu, eta] : kFactors) {
            for (SearchParams params : safe_variants()) {
                if (!params.trace) continue;
                params.mu = mu;
                params.eta = eta;
                NOTE("terms " << terms << ", " << describe(params));
                const SearchResult result = search(made.index, query, 5, params);
                std::set<std::uint32_t> clusters;
                for (const TraceEntry& entry : result.trace) clusters.insert(entry.cluster);
                CHECK_EQ(clusters.size(), result.trace.size());
                const auto count = [&](Decision decision) {
                    const auto found = std::count_if(result.trace.begin(), result.trace.end(),
                                                     [&](const TraceEntry& e) { return e.decision == decision; });
                    return static_cast<std::uint64_t>(found);
                };
                const SearchStats& stats = result.stats;
                CHECK_EQ(stats.clusters_visited, count(Decision::visited));
                CHECK_EQ(stats.clusters_tied, count(Decision::tied));
                CHECK_EQ(stats.clusters_limited + count(Decision::limited), 0U);
                CHECK_EQ(stats.clusters_visited + stats.clusters_pruned + stats.clusters_tied + stats.clusters_stopped +
                             stats.clusters_zero,
                         made.index.num_clusters());
                if (params.method == Method::asc) {
                    CHECK_EQ(result.trace.size() + num_zero, made.index.num_clusters());
                    CHECK(stats.clusters_pruned - count(Decision::pruned) <= num_zero);
                } else {
                    CHECK_EQ(stats.clusters_pruned, count(Decision::pruned));
                    CHECK_EQ(stats.clusters_zero, num_zero);
                }
            }
        }
    }
}

// max_clusters and a time budget end the paper's methods after that many clusters, never before the first, and what was
// scored until then is exact.
TEST(search_respects_limits) {
    const Indexed<std::uint8_t> made(damage_collection<std::uint8_t>());
    Random random(47);
    const PreparedQuery query = random_query(made.index, random, 15, 9);
    const std::vector<std::uint64_t> scores = made.docs.scores(query);
    for (const SearchParams& safe : safe_variants()) {
        if (!safe.visits_clusters()) continue;
        SearchParams unlimited = safe;
        unlimited.trace = true;
        const std::uint64_t all = search(made.index, query, 10, unlimited).stats.clusters_visited;
        CHECK(all > 6);
        for (const std::uint32_t most : {1U, 2U, 5U, 1000U}) {
            for (const bool by_time : {false, true}) {
                NOTE("at most " << most << ", by time " << by_time << ", " << describe(safe));
                SearchParams params = safe;
                params.max_clusters = by_time ? 0 : most;
                // A clock that every look moves by a millisecond: one look at the start and one before each visit.
                params.budget_ms = by_time ? most + 1 : 0;
                params.risk = 0;
                params.hooks.clock = [now = std::uint64_t{0}]() mutable { return now += 1'000'000; };
                const SearchResult result = search(made.index, query, 10, params);
                const bool limited = most == 5U ? result.stats.budget_hit == 1 : most < 5U;
                CHECK_EQ(result.stats.budget_hit, limited ? 1U : 0U);
                CHECK(result.stats.clusters_visited >= 1 && result.stats.clusters_visited <= most + 1);
                if (!by_time) CHECK(result.stats.clusters_visited <= most);
                for (std::size_t i = 0; i < result.rows.size(); ++i) CHECK_EQ(result.scores[i], scores[result.rows[i]]);
            }
        }
    }
}

// What is told of a watched document is true: its score, or a bound of it that did not pass the threshold, or that its
// cluster was not visited.
TEST(search_tells_the_fate_of_a_document) {
    const Indexed<std::uint8_t> made(damage_collection<std::uint8_t>());
    Random random(48);
    const std::vector<Position> positions = positions_of_rows(made.index);
    const PreparedQuery query = random_query(made.index, random, 15, 9);
    const std::vector<std::uint64_t> scores = made.docs.scores(query);
    for (SearchParams params : safe_variants()) {
        const bool is_engine = params.method == Method::asc;
        if (!(params.trace || is_engine) || params.hooks.estimate_threshold) continue;
        for (Row row = 0; row < made.docs.num_docs(); row += 3) {
            NOTE("row " << row << ", " << describe(params));
            params.watch = positions[row];
            const SearchResult result = search(made.index, query, 10, params);
            const std::uint32_t cluster = made.index.cluster_of(positions[row]);
            const bool visited = std::any_of(result.trace.begin(), result.trace.end(), [&](const TraceEntry& e) {
                return e.cluster == cluster && e.decision == Decision::visited;
            });
            const WatchedDocument& report = result.watched;
            if (report.fate == Fate::scored) CHECK_EQ(report.bound, scores[row]);
            if (report.fate == Fate::below_bound)
                CHECK(scores[row] <= report.bound && report.bound <= report.threshold);
            if (is_engine) {
                CHECK(report.fate != Fate::unseen);
                continue;
            }
            if (report.fate != Fate::unseen) CHECK(visited);
            if (params.hooks.documents == DocumentMethod::blocks) CHECK_EQ(report.fate != Fate::unseen, visited);
        }
    }
}

// A search whose stop check says so throws Interrupted, at whatever poll, and the next one on the thread is right.
TEST(search_stops_on_request) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(random_collection<Code>(
            {.docs = 900, .terms = 80, .clusters = 300, .terms_per_doc = 12, .largest_code = 9}));
        Random random(45);
        for (const std::uint32_t weight : {5U, kMaxQueryWeight}) {
            const PreparedQuery query = random_query(made.index, random, 20, weight);
            const Ranking ranking = rank_all(made.docs.scores(query));
            for (const SearchParams& params : safe_variants()) {
                NOTE(describe(params));
                SearchParams counting = params;
                int polls = 0;
                counting.stop = [&] { return ++polls < 0; };
                check_result(made.index, query, ranking, 200, counting);
                CHECK(polls > 0);
                for (int poll = 1; poll <= polls; ++poll) {
                    SearchParams stopping = params;
                    stopping.stop = stop_at(poll);
                    CHECK_THROWS(search(made.index, query, 200, stopping), Interrupted);
                    check_result(made.index, query, ranking, 200, params);
                }
            }
        }
    });
}

// Threads that search one index at the same time get the answers of one thread.
TEST(search_is_safe_in_threads) {
    const Indexed<std::uint8_t> made(damage_collection<std::uint8_t>());
    const std::vector<SearchParams> variants = safe_variants();
    const auto answers = [&](std::size_t shift) {
        std::vector<std::vector<Row>> rows(variants.size());
        for (std::size_t i = 0; i < variants.size(); ++i) {
            const std::size_t at = (i + shift) % variants.size();
            Random random(at);
            rows[at] = search(made.index, random_query(made.index, random, 9, 50), 15, variants[at]).rows;
        }
        return rows;
    };
    const auto expected = answers(0);
    std::vector<std::vector<std::vector<Row>>> found(4);
    {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < found.size(); ++t) threads.emplace_back([&, t] { found[t] = answers(t * 5); });
    }
    for (const auto& rows : found) CHECK(rows == expected);
}

// Whatever bytes are in the arrays that are not checked on opening, no method leaves its memory, and results are
// at most k rows in order of their scores.
TEST(search_survives_damage) {
    each_code_type([](auto code) {
        NOTE("code bytes " << sizeof(code));
        each_damaged_index(make_parts(damage_collection<decltype(code)>()), use_damaged);
    });
}

// Damage in clusters of several tiles and windows is survived too.
TEST(search_survives_damage_in_large_clusters) {
    Collection<std::uint8_t> docs;
    docs.num_terms = 6;
    docs.num_segments = 3;
    docs.exact_segments = true;
    for (std::uint32_t d = 0; d < 80000; ++d) {
        docs.add_entry(d % 3, static_cast<std::uint8_t>(1 + d % 255));
        if (d % 500 == 0) docs.add_entry(3 + d / 500 % 3, 9);
        docs.end_document(d % 10 == 0 ? 1 : d < 79000 ? 0 : 2 + d % 59, d % 3);
    }
    each_damaged_index(make_parts(docs), [](const Index& index, Random& random) {
        for (const Method method : {Method::exhaustive, Method::maxscore, Method::anytime, Method::sequential,
                                    Method::asc, Method::asc, Method::asc}) {
            SearchParams params = variant(method, true);
            params.trace = true;
            params.hooks.sweep = draw(random, 0, 1) == 0;
            params.hooks.all_tiles = static_cast<std::uint32_t>(draw(random, 0, 1)) * 2048;
            params.mu = draw(random, 0, 1) == 0 ? 0.7 : 1.0;
            if (method == Method::asc) params.max_clusters = static_cast<std::uint32_t>(draw(random, 0, 5));
            check_plausible(index, search(index, random_query(index, random, 6, 50), 10, params), 10);
        }
    });
}

// A search over a damaged index leaves nothing behind: the next one on the thread, over a whole index, is right.
TEST(search_after_damage_is_right) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(damage_collection<Code>());
        Random query_random(46);
        const PreparedQuery query = random_query(made.index, query_random, 10, 50);
        const Ranking ranking = rank_all(made.docs.scores(query));
        each_damaged_index(made.parts, [&](const Index& index, Random& random) {
            for (const SearchParams& params : safe_variants()) {
                NOTE("damaged " << describe(params));
                search(index, random_query(index, random, 10, 50), 20, params);
                check_result(made.index, query, ranking, 20, with_method(Method::exhaustive));
                check_result(made.index, query, ranking, 20, with_method(Method::asc));
            }
        });
    });
}
