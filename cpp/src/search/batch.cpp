#include "segmax/search/batch.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "segmax/base/interrupt.hpp"
#include "segmax/search/search.hpp"

#ifdef _WIN32
#include <process.h>
#else
#include <unistd.h>
#endif

namespace segmax {

namespace {

/// The number of this process.
int process_id() {
#ifdef _WIN32
    return _getpid();
#else
    return getpid();
#endif
}

/// Work that several threads do together.
struct Job {
    std::function<void()> work;
    unsigned wanted = 0;  ///< threads that have not joined yet
    unsigned active = 0;  ///< threads that work on it
};

/// Threads that wait for work. They never end: their buffers, one set per thread, are what makes them worth keeping.
class Pool {
public:
    /// The pool of this process. A forked child has none of its parent's threads and starts its own.
    static Pool& instance() {
        static std::mutex mutex;
        static Pool* pool = nullptr;
        static int owner = 0;
        const std::lock_guard lock(mutex);
        if (pool == nullptr || owner != process_id()) {
            pool = new Pool();  // never deleted: threads may wait in it until the process ends
            owner = process_id();
        }
        return *pool;
    }

    /// Asks for helpers; fewer come where the system has no threads left.
    void start(const std::shared_ptr<Job>& job, unsigned helpers) {
        const std::lock_guard lock(mutex_);
        while (num_threads_ < helpers && add_thread()) {
        }
        job->wanted = std::min(helpers, num_threads_);
        jobs_.push_back(job);
        changed_.notify_all();
    }

    /// No more helpers; waits until those that came are done, calling `meanwhile` now and then.
    void finish(const std::shared_ptr<Job>& job, const std::function<void()>& meanwhile) {
        std::unique_lock lock(mutex_);
        job->wanted = 0;
        std::erase(jobs_, job);
        while (job->active > 0) {
            changed_.wait_for(lock, std::chrono::milliseconds(50));
            lock.unlock();
            meanwhile();
            lock.lock();
        }
    }

private:
    bool add_thread() {
        try {
            std::thread([this] { loop(); }).detach();
        } catch (const std::system_error&) {
            return false;
        }
        ++num_threads_;
        return true;
    }

    void loop() {
        std::unique_lock lock(mutex_);
        for (;;) {
            const auto wants = [](const std::shared_ptr<Job>& job) { return job->wanted > 0; };
            const auto found = std::find_if(jobs_.begin(), jobs_.end(), wants);
            if (found == jobs_.end()) {
                changed_.wait(lock);
                continue;
            }
            // A copy: without the lock, its caller may take it from the list.
            const std::shared_ptr<Job> job = *found;  // NOLINT(performance-unnecessary-copy-initialization)
            --job->wanted;
            ++job->active;
            lock.unlock();
            job->work();
            lock.lock();
            --job->active;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::shared_ptr<Job>> jobs_;
    unsigned num_threads_ = 0;
};

using Answer = std::function<void(std::size_t, const PreparedQuery&, std::size_t, const SearchParams&)>;

class BatchRunner {
public:
    BatchRunner(const Lattice& lattice, const Batch& batch, const Answer& answer)
        : lattice_(lattice), batch_(batch), answer_(answer) {}

    void run(unsigned threads, const std::function<bool()>& poll) {
        const auto check = [&] { return stopped_.load(std::memory_order_relaxed) || poll(); };
        if (threads <= 1) {
            work(check);
        } else {
            const auto job = std::make_shared<Job>();
            job->work = [this] { work([this] { return stopped_.load(std::memory_order_relaxed); }); };
            Pool& pool = Pool::instance();
            pool.start(job, threads - 1);
            work(check);
            pool.finish(job, [&] {
                if (!stopped_ && poll()) fail(std::make_exception_ptr(Interrupted()));
            });
        }
        if (error_) std::rethrow_exception(error_);
    }

private:
    void work(const std::function<bool()>& stop) {
        try {
            SearchParams params;
            const SearchParams* copied = nullptr;
            for (std::size_t i = next_++; i < batch_.size(); i = next_++) {
                if (copied != &batch_.params_of(i)) {
                    copied = &batch_.params_of(i);
                    params = *copied;
                    params.stop = stop;
                }
                const auto begin = static_cast<std::size_t>(batch_.indptr[i]);
                const auto count = static_cast<std::size_t>(batch_.indptr[i + 1]) - begin;
                const PreparedQuery query = prepare_query(lattice_, batch_.terms.subspan(begin, count),
                                                          batch_.weights.subspan(begin, count), params);
                answer_(i, query, batch_.k(i), params);
                if (stop()) throw Interrupted();
            }
        } catch (...) {
            fail(std::current_exception());
        }
    }

    void fail(std::exception_ptr error) {
        const std::lock_guard lock(mutex_);
        // Interrupted in a thread only echoes the first failure.
        if (!error_) error_ = std::move(error);
        stopped_ = true;
        next_ = batch_.size();
    }

    const Lattice& lattice_;
    const Batch& batch_;
    const Answer& answer_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> stopped_{false};
    std::mutex mutex_;
    std::exception_ptr error_;
};

}  // namespace

void run_batch(const Lattice& lattice, const Batch& batch, unsigned threads, const Answer& answer,
               const std::function<bool()>& poll) {
    assert(!batch.indptr.empty() && (batch.ks.size() == 1 || batch.ks.size() == batch.size()) &&
           (batch.params.size() == 1 || batch.params.size() == batch.size()));
    BatchRunner(lattice, batch, answer).run(threads, poll);
}

void search_batch(const Index& index, const Lattice& lattice, const Batch& batch, unsigned threads,
                  const std::function<void(std::size_t, const SearchResult&, double)>& store,
                  const std::function<bool()>& poll) {
    run_batch(
        lattice, batch, threads,
        [&](std::size_t i, const PreparedQuery& query, std::size_t k, const SearchParams& params) {
            store(i, search(index, query, k, params), query.scale);
        },
        poll);
}

}  // namespace segmax
