// Batches of queries on several threads against one search after the other.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "make_index.hpp"
#include "search_variants.hpp"
#include "segmax/base/interrupt.hpp"
#include "segmax/search/batch.hpp"
#include "segmax/search/search.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

const auto never = [] { return false; };

/// Queries as a batch wants them, each with its own k and parameters.
struct OwnedBatch {
    std::vector<std::int64_t> indptr{0}, terms;
    std::vector<double> weights;
    std::vector<std::size_t> ks;
    std::vector<SearchParams> params;
    std::vector<const SearchParams*> pointers;

    OwnedBatch(const Index& index, std::size_t size, unsigned seed) {
        Random random(seed);
        const std::vector<SearchParams> variants = safe_variants();
        for (std::size_t i = 0; i < size; ++i) {
            // Some are empty, some have terms that the index lacks.
            const std::uint64_t count = draw(random, 0, 9);
            for (std::uint64_t t = 0; t < count; ++t) {
                terms.push_back(static_cast<std::int64_t>(draw(random, 0, index.num_terms() + 3)));
                weights.push_back(0.25 * static_cast<double>(draw(random, 0, 20)));
            }
            indptr.push_back(static_cast<std::int64_t>(terms.size()));
            ks.push_back(draw(random, 1, 120));
            params.push_back(variants[draw(random, 0, variants.size() - 1)]);
            SearchParams& some = params.back();
            if (draw(random, 0, 3) == 0) some.query_mass = 0.6;
            if (draw(random, 0, 3) == 0) {
                some.mask =
                    make_mask(index, [&, share = draw(random, 0, 8)](Row) { return draw(random, 0, 7) < share; });
            }
            if (draw(random, 0, 3) == 0) some.floor = Floor{static_cast<double>(draw(random, 1, 300)), 50};
            if (draw(random, 0, 3) == 0 && some.method == Method::asc) some.eta = 0.8;
        }
        for (const SearchParams& some : params) pointers.push_back(&some);
    }

    Batch view() const { return {indptr, terms, weights, ks, pointers}; }
};

struct Answer {
    std::vector<Row> rows;
    std::vector<std::uint64_t> scores;
    std::uint64_t blocks_scored = 0, dropped_terms = 0;
    double scale = 0;

    bool operator==(const Answer&) const = default;
};

Answer answer_of(const SearchResult& result, double scale) {
    return {result.rows, result.scores, result.stats.blocks_scored, result.stats.dropped_terms, scale};
}

/// The answers of single searches.
std::vector<Answer> one_by_one(const Index& index, const Batch& batch) {
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const auto first = static_cast<std::size_t>(batch.indptr[i]);
        const auto count = static_cast<std::size_t>(batch.indptr[i + 1]) - first;
        const PreparedQuery query = prepare_query(index, batch.terms.subspan(first, count),
                                                  batch.weights.subspan(first, count), batch.params_of(i));
        answers.push_back(answer_of(search(index, query, batch.k(i), batch.params_of(i)), query.scale));
    }
    return answers;
}

/// The answers of a batch; each must be stored once.
std::vector<Answer> at_once(const Index& index, const Batch& batch, unsigned threads) {
    std::vector<Answer> answers(batch.size());
    std::vector<std::atomic<int>> times(batch.size());
    search_batch(
        index, Lattice(index), batch, threads,
        [&](std::size_t i, const SearchResult& result, double scale) {
            ++times.at(i);
            answers[i] = answer_of(result, scale);
        },
        never);
    for (const auto& count : times) CHECK_EQ(count.load(), 1);
    return answers;
}

Collection<std::uint8_t> some_collection() {
    return random_collection<std::uint8_t>({.docs = 2500, .terms = 90, .clusters = 40, .head_ratio = 1, .seed = 3});
}

}  // namespace

// Queries with their own k and parameters get the answers of single searches, on one thread, two and five.
TEST(batch_equals_single_searches) {
    const Indexed<std::uint8_t> made(some_collection());
    for (const std::size_t size : {0, 1, 3, 300}) {
        const OwnedBatch owned(made.index, size, 71);
        const std::vector<Answer> expected = one_by_one(made.index, owned.view());
        for (const unsigned threads : {1U, 2U, 5U, 2U}) {
            NOTE(size << " queries, " << threads << " threads");
            CHECK(at_once(made.index, owned.view(), threads) == expected);
        }
    }
}

// One k and one set of parameters serve all queries.
TEST(batch_shares_k_and_parameters) {
    const Indexed<std::uint8_t> made(some_collection());
    const OwnedBatch owned(made.index, 100, 72);
    Batch batch = owned.view();
    const std::size_t k = 7;
    const SearchParams params;
    const SearchParams* pointer = &params;
    batch.ks = {&k, 1};
    batch.params = {&pointer, 1};
    const std::vector<Answer> expected = one_by_one(made.index, batch);
    for (const unsigned threads : {1U, 2U, 5U}) CHECK(at_once(made.index, batch, threads) == expected);
    for (const Answer& answer : expected) CHECK(answer.rows.size() <= k);
}

// Batches of several callers at once share the threads and mix nothing up.
TEST(batch_of_several_callers) {
    const Indexed<std::uint8_t> made(some_collection());
    const Indexed<std::uint16_t> other(random_collection<std::uint16_t>({.docs = 700, .largest_code = 60'000}));
    std::vector<int> wrong(4, 0);
    {
        std::vector<std::jthread> callers;
        for (unsigned c = 0; c < wrong.size(); ++c) {
            callers.emplace_back([&, c] {
                const Index& index = c % 2 == 0 ? made.index : other.index;
                const OwnedBatch owned(index, 60, 80 + c);
                const std::vector<Answer> expected = one_by_one(index, owned.view());
                for (int round = 0; round < 5; ++round) {
                    std::vector<Answer> answers(expected.size());
                    search_batch(
                        index, Lattice(index), owned.view(), 3,
                        [&](std::size_t i, const SearchResult& result, double scale) {
                            answers[i] = answer_of(result, scale);
                        },
                        never);
                    wrong[c] += answers == expected ? 0 : 1;
                }
            });
        }
    }
    CHECK_EQ(wrong, (std::vector<int>(4, 0)));
}

// The first error, of a query or of whoever stores results, ends the batch and is thrown; the next batch is right.
TEST(batch_ends_with_the_first_error) {
    const Indexed<std::uint8_t> made(some_collection());
    for (const unsigned threads : {1U, 2U, 5U}) {
        NOTE(threads << " threads");
        const OwnedBatch good(made.index, 200, 73);
        const std::vector<Answer> expected = one_by_one(made.index, good.view());
        OwnedBatch bad = good;
        const auto found = std::find_if(bad.indptr.begin(), bad.indptr.end(), [](auto at) { return at > 40; });
        bad.terms[static_cast<std::size_t>(*found)] = -1;
        std::atomic<std::size_t> stored{0};
        const auto count = [&](std::size_t, const SearchResult&, double) { ++stored; };
        CHECK_THROWS(search_batch(made.index, Lattice(made.index), bad.view(), threads, count, never),
                     std::invalid_argument);
        CHECK(stored < good.view().size());
        std::atomic<std::size_t> calls{0};
        const auto fail = [&](std::size_t i, const SearchResult&, double) {
            ++calls;
            if (i == 20) throw std::runtime_error("cannot store");
        };
        CHECK_THROWS(search_batch(made.index, Lattice(made.index), good.view(), threads, fail, never),
                     std::runtime_error);
        CHECK(calls < good.view().size());
        CHECK(at_once(made.index, good.view(), threads) == expected);
    }
}

// A batch whose caller asks to stop, at whatever poll, ends with Interrupted, and polls happen in the caller's thread.
TEST(batch_stops_on_request) {
    const Indexed<std::uint8_t> made(some_collection());
    const OwnedBatch owned(made.index, 200, 74);
    const std::vector<Answer> expected = one_by_one(made.index, owned.view());
    const std::thread::id caller = std::this_thread::get_id();
    for (const unsigned threads : {1U, 2U, 5U}) {
        for (const int poll : {1, 2, 7, 40}) {
            NOTE(threads << " threads, poll " << poll);
            bool elsewhere = false;
            std::atomic<bool> asked{false};
            const auto stop = [&, left = poll]() mutable {
                elsewhere = elsewhere || std::this_thread::get_id() != caller;
                asked = asked || --left <= 0;
                return asked.load();
            };
            // The other threads wait, so that the batch cannot be done before.
            const auto store = [&](std::size_t, const SearchResult&, double) {
                while (!asked && std::this_thread::get_id() != caller) std::this_thread::yield();
            };
            CHECK_THROWS(search_batch(made.index, Lattice(made.index), owned.view(), threads, store, stop),
                         Interrupted);
            CHECK(!elsewhere);
            CHECK(at_once(made.index, owned.view(), threads) == expected);
        }
    }
}
