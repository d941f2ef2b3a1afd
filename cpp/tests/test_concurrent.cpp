// What a collection does with the core, from many threads at once: readers search a state, alone and in batches, while
// a writer adds small parts and deletes documents, and a merger makes large parts of small ones. The thread sanitizer
// watches this (make sanitize); without it, these tests still compare every answer with exhaustive search.
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"
#include "make_index.hpp"
#include "segmax/index/documents.hpp"
#include "segmax/search/lattice.hpp"
#include "segmax/search/parts.hpp"
#include "segmax/search/search.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

constexpr std::uint32_t kTerms = 40;
constexpr std::uint32_t kLargestCode = 9;  // ties everywhere
constexpr std::uint32_t kFewDocs = 30;     // of a part that the writer adds
constexpr std::size_t kMostParts = 6;      // before the merger joins them

/// A part of some documents. Immutable: threads share it.
struct SharedPart {
    SharedPart(const Collection<std::uint8_t>& docs, std::vector<std::int64_t> given)
        : made(docs, 2), numbers(std::move(given)) {}
    Small<std::uint8_t> made;
    std::vector<std::int64_t> numbers;
};

/// What is there at one moment. Immutable, too; parts are shared by the states that have them.
struct State {
    std::vector<std::shared_ptr<const SharedPart>> shared;
    PartMasks masks;

    std::vector<Part> parts() const {
        std::vector<Part> parts;
        for (const auto& part : shared) parts.push_back({&*part->made.index, part->numbers});
        return parts;
    }
};

/// The current state: readers take it, the writer and the merger replace it, one at a time.
class Store {
public:
    std::shared_ptr<const State> current() const {
        const std::lock_guard lock(mutex_);
        return state_;
    }
    template <class Change>
    void change(Change change) {
        const std::lock_guard writing(writing_);
        auto next = std::make_shared<State>(*current());
        change(*next);
        const std::lock_guard lock(mutex_);
        state_ = std::move(next);
    }

private:
    std::mutex writing_;
    mutable std::mutex mutex_;
    std::shared_ptr<const State> state_ = std::make_shared<State>();
};

Collection<std::uint8_t> some_documents(std::uint32_t count, Random& random) {
    return random_collection<std::uint8_t>({.docs = count,
                                            .terms = kTerms,
                                            .clusters = 1,
                                            .segments = 1,
                                            .largest_code = kLargestCode,
                                            .seed = static_cast<unsigned>(random())});
}

std::shared_ptr<const Mask> some_of(const Index& index, Random& random) {
    return make_mask(index, [&](Row) { return draw(random, 0, 3) != 0; });
}

/// One document after the other out of a part, where its mask allows it.
void append_documents(const SharedPart& part, const Mask* mask, Collection<std::uint8_t>& docs,
                      std::vector<std::int64_t>& numbers) {
    const Index& index = *part.made.index;
    const DocumentRange<std::uint8_t> found = document_range<std::uint8_t>(index, 0, index.num_positions());
    const std::vector<Position> positions = positions_of_rows(index);
    for (std::size_t i = 0; i < found.rows.size(); ++i) {
        if (mask != nullptr && !mask->allows(positions[found.rows[i]])) continue;
        for (auto at = static_cast<std::size_t>(found.indptr[i]); at < static_cast<std::size_t>(found.indptr[i + 1]);
             ++at) {
            docs.add_entry(found.terms[at], found.codes[at]);
        }
        docs.end_document(0, 0);
        numbers.push_back(part.numbers[found.rows[i]]);
    }
}

/// One part for all parts of a state.
std::shared_ptr<const SharedPart> merged(const State& state) {
    Collection<std::uint8_t> docs;
    docs.num_terms = kTerms;
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < state.shared.size(); ++i) {
        append_documents(*state.shared[i], state.masks[i].get(), docs, numbers);
    }
    return std::make_shared<const SharedPart>(docs, std::move(numbers));
}

void write(Store& store, std::atomic<bool>& stop, int rounds) {
    Random random(1);
    std::int64_t number = 0;
    for (int round = 0; round < rounds; ++round) {
        while (store.current()->shared.size() >= 2 * kMostParts) std::this_thread::yield();  // for the merger
        std::vector<std::int64_t> numbers(kFewDocs);
        for (std::int64_t& one : numbers) one = number++;
        const auto part = std::make_shared<const SharedPart>(some_documents(kFewDocs, random), std::move(numbers));
        store.change([&](State& state) {
            state.shared.push_back(part);
            state.masks.push_back(nullptr);
            // Documents are deleted by a new mask; a state that is in use keeps its own.
            const std::size_t at = draw(random, 0, state.shared.size() - 1);
            state.masks[at] = some_of(*state.shared[at]->made.index, random);
        });
    }
    stop = true;
}

void merge(Store& store, const std::atomic<bool>& stop, std::atomic<int>& merges) {
    while (!stop) {
        if (store.current()->shared.size() < kMostParts) {
            std::this_thread::yield();
            continue;
        }
        store.change([&](State& state) {
            state.shared = {merged(state)};
            state.masks = {nullptr};
        });
        ++merges;
    }
}

/// Score and number of every result.
std::vector<std::pair<std::uint64_t, std::int64_t>> found_in(const PartsResult& result) {
    std::vector<std::pair<std::uint64_t, std::int64_t>> found;
    for (const PartHit& hit : result.hits) found.emplace_back(hit.score, hit.number);
    return found;
}

/// Searches states until the end; returns how many answers were wrong.
int read(const Store& store, const Lattice& lattice, const std::atomic<bool>& stop, unsigned seed, unsigned threads) {
    Random random(seed);
    SearchParams exact;
    SearchParams exhaustive;
    exhaustive.method = Method::exhaustive;
    const SearchParams* const pointer = &exact;
    const std::size_t k = 10;
    int wrong = 0;
    for (int round = 0; round < 3 || !stop; ++round) {
        const std::shared_ptr<const State> state = store.current();
        const std::vector<Part> parts = state->parts();
        std::vector<std::int64_t> indptr{0}, terms;
        std::vector<double> weights;
        for (int query = 0; query < 8; ++query) {
            for (int i = 0; i < 4; ++i) {
                terms.push_back(static_cast<std::int64_t>(draw(random, 0, kTerms - 1)));
                weights.push_back(static_cast<double>(draw(random, 1, 9)));
            }
            indptr.push_back(static_cast<std::int64_t>(terms.size()));
        }
        const Batch batch{indptr, terms, weights, {&k, 1}, {&pointer, 1}};
        std::vector<PartsResult> answers(batch.size());
        const std::vector<PartMasks> masks{state->masks};
        search_parts_batch(
            lattice, parts, masks, batch, threads,
            [&](std::size_t i, const PartsResult& result, double) { answers[i] = result; }, [] { return false; });
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const PreparedQuery query =
                prepare_query(lattice, std::span(terms).subspan(4 * i, 4), std::span(weights).subspan(4 * i, 4), exact);
            const auto expected = found_in(search_parts(parts, state->masks, query, k, exhaustive));
            wrong += found_in(answers[i]) == expected ? 0 : 1;
            wrong += found_in(search_parts(parts, state->masks, query, k, exact)) == expected ? 0 : 1;
        }
    }
    return wrong;
}

}  // namespace

// Readers of one collection, alone and in batches, always see a whole state, whatever a writer and a merger do.
TEST(concurrent_parts_of_a_collection) {
    Store store;
    const Lattice lattice(std::vector<double>(kTerms, 1.0), std::vector<std::uint32_t>(kTerms, kLargestCode), false);
    std::atomic<bool> stop{false};
    std::atomic<int> merges{0};
    std::vector<int> wrong(3, 0);
    {
        std::vector<std::jthread> threads;
        for (unsigned reader = 0; reader < wrong.size(); ++reader) {
            threads.emplace_back([&, reader] { wrong[reader] = read(store, lattice, stop, 10 + reader, reader + 1); });
        }
        threads.emplace_back([&] { merge(store, stop, merges); });
        write(store, stop, 60);
    }
    CHECK_EQ(wrong, (std::vector<int>(3, 0)));
    CHECK(merges > 0);
}

// Parts that share everything but the thread that searches them: positions, masks and documents are read by all.
TEST(concurrent_searches_of_one_part) {
    Random random(3);
    const Indexed<std::uint8_t> made(random_collection<std::uint8_t>({.docs = 600, .head_ratio = 1, .seed = 9}));
    const auto mask = some_of(made.index, random);
    std::vector<int> wrong(4, 0);
    {
        std::vector<std::jthread> threads;
        for (unsigned t = 0; t < wrong.size(); ++t) {
            threads.emplace_back([&, t] {
                Random own(20 + t);
                for (int round = 0; round < 40; ++round) {
                    const PreparedQuery query = random_query(made.index, own, 6, 50);
                    SearchParams params;
                    params.mask = t % 2 == 0 ? mask : some_of(made.index, own);
                    SearchParams exhaustive = params;
                    exhaustive.method = Method::exhaustive;
                    const SearchResult expected = search(made.index, query, 10, exhaustive);
                    wrong[t] += search(made.index, query, 10, params).rows == expected.rows ? 0 : 1;
                    document_range<std::uint8_t>(made.index, 0, made.index.num_positions());
                }
            });
        }
    }
    CHECK_EQ(wrong, (std::vector<int>(4, 0)));
}
