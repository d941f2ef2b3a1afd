// MaxScore (Turtle and Flood 1995), document at a time, over a window of the whole collection or one chunk.
#pragma once

#include "segmax/search/context.hpp"

namespace segmax {

template <class Code, class Acc>
struct MaxScoreCursor {
    Run<Code> run;
    std::uint32_t at = 0;
    std::uint32_t next = 0;  ///< offset of the next document from the start of the range
    std::uint32_t weight = 0;
    Acc bound = 0;  ///< weight times the term's largest code in the range

    static constexpr std::uint32_t kEnd = 0xFFFFFFFFU;

    void settle(std::uint16_t base) { next = at < run.size ? static_cast<std::uint16_t>(run.ids[at] - base) : kEnd; }
};

/// Scores the documents of [first, first + size) that can still enter. `factor` is 1 for θ itself, or the
/// over-estimation η of the document level. Cursors are consumed.
template <class Code, class Acc>
class MaxScoreRange {
public:
    MaxScoreRange(Context<Code, Acc>& context, double factor) : context_(context), factor_(factor) {}

    void add(const Run<Code>& run, std::uint32_t weight, Acc bound) {
        if (run.size > 0) cursors_.push_back({run, 0, 0, weight, bound});
    }

    void run(Position first, std::uint32_t size) {
        base_ = static_cast<std::uint16_t>(first);
        for (auto& cursor : cursors_) cursor.settle(base_);
        std::sort(cursors_.begin(), cursors_.end(), [](const auto& a, const auto& b) { return a.bound < b.bound; });
        prefix_.resize(cursors_.size());
        Acc sum = 0;
        for (std::size_t i = 0; i < cursors_.size(); ++i) prefix_[i] = sum += cursors_[i].bound;
        essential_ = 0;
        num_read_ = 0;
        update_gate();
        for (std::uint32_t doc = next_essential(); doc < size; doc = upcoming_) score(first + doc, doc);
        context_.stats().postings_read += num_read_;
        cursors_.clear();
    }

private:
    void update_gate() {
        gate_ = Gate<Acc>::of(context_.top(), factor_, context_.seed);
        // Lists whose bounds together stay below the gate cannot lift a document into the results by themselves.
        while (essential_ < cursors_.size() && prefix_[essential_] < gate_.least) ++essential_;
    }

    std::uint32_t next_essential() const {
        std::uint32_t doc = MaxScoreCursor<Code, Acc>::kEnd;
        for (std::size_t i = essential_; i < cursors_.size(); ++i) doc = std::min(doc, cursors_[i].next);
        return doc;
    }

    /// Scores one document, or gives it up on the way; leaves the next one in upcoming_.
    void score(Position position, std::uint32_t doc) {
        Acc sum = 0;
        std::uint32_t upcoming = MaxScoreCursor<Code, Acc>::kEnd;
        for (std::size_t i = essential_; i < cursors_.size(); ++i) {
            auto& cursor = cursors_[i];
            if (cursor.next == doc) {
                sum += static_cast<Acc>(cursor.weight) * cursor.run.codes[cursor.at++];
                cursor.settle(base_);
                ++num_read_;
            }
            upcoming = std::min(upcoming, cursor.next);
        }
        upcoming_ = upcoming;
        for (std::size_t i = essential_; i-- > 0;) {
            if (is_hopeless(sum + prefix_[i], position)) return abandon(position, sum + prefix_[i]);
            auto& cursor = cursors_[i];
            skip_to(cursor, doc);
            if (cursor.next == doc) {
                sum += static_cast<Acc>(cursor.weight) * cursor.run.codes[cursor.at];
                ++num_read_;
            }
        }
        ++context_.stats().docs_scored;
        if (sum < gate_.least && position != context_.params.watch) return;
        context_.offer(sum, position);
        if (context_.top().threshold() != gate_.tied_at || context_.top().threshold_row() != gate_.tied_row) {
            update_gate();
            upcoming_ = next_essential();
        }
    }

    /// Rows are looked up only where a tie makes them matter: most documents fail by their bound alone.
    bool is_hopeless(Acc bound, Position position) const {
        return bound < gate_.least ||
               (bound == gate_.tied_at && !gate_.lets_in(bound, context_.index.row_at(position)));
    }

    void abandon(Position position, Acc bound) {
        if (position == context_.params.watch) {
            context_.result.watched = {Fate::below_bound, bound, context_.top().threshold(), gate_.least};
        }
    }

    /// Gallops, then halves: completions jump far in long lists and a step or two in short ones.
    void skip_to(MaxScoreCursor<Code, Acc>& cursor, std::uint32_t doc) const {
        if (cursor.next >= doc) return;
        const auto below = [&](std::uint32_t i) { return static_cast<std::uint16_t>(cursor.run.ids[i] - base_) < doc; };
        std::uint32_t low = cursor.at + 1;
        std::uint32_t step = 1;
        while (low + step <= cursor.run.size && below(low + step - 1)) {
            low += step;
            step *= 2;
        }
        std::uint32_t high = std::min(low + step - 1, cursor.run.size);
        while (low < high) {
            const std::uint32_t middle = low + (high - low) / 2;
            if (below(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        cursor.at = low;
        cursor.settle(base_);
    }

    Context<Code, Acc>& context_;
    double factor_;
    std::uint16_t base_ = 0;
    std::vector<MaxScoreCursor<Code, Acc>> cursors_;
    std::vector<Acc> prefix_;
    std::size_t essential_ = 0;
    std::uint32_t upcoming_ = 0;
    std::uint64_t num_read_ = 0;
    Gate<Acc> gate_;
};

/// MaxScore without clusters: the whole collection, window by window, with the terms' global maxima.
template <class Code, class Acc>
void search_maxscore(Context<Code, Acc>& context) {
    const Index& index = context.index;
    MaxScoreRange<Code, Acc> range(context, 1.0);
    const auto windows = index.window_first_chunk();
    for (std::size_t w = 0; w + 1 < windows.size(); ++w) {
        for (const TermView<Code>& term : context.terms()) {
            range.add(term.in_chunks(windows[w], windows[w + 1], index.num_chunks()), term.weight,
                      static_cast<Acc>(term.weight) * term.largest);
        }
        const Position first = index.chunk_position(windows[w]);
        range.run(first, index.chunk_position(windows[w + 1]) - first);
        context.check_stop();
    }
    context.stats().clusters_visited = index.num_clusters();
}

}  // namespace segmax
