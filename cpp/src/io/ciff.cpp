#include "segmax/io/ciff.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/protobuf.hpp"
#include "segmax/io/errors.hpp"

namespace segmax {

using protobuf::append_varint;
using protobuf::kMaxVarint;
using protobuf::take_varint;
using protobuf::varint_size;

namespace {

constexpr std::uint64_t kMaxPosting = 1U << 10U;
constexpr std::uint64_t kMaxTf = 0x7FFFFFFF;  // int32
constexpr std::uint64_t kMaxDocs = 0x7FFFFFFF;
constexpr std::uint32_t kMissing = std::numeric_limits<std::uint32_t>::max();

/// Fields of a PostingsList.
constexpr std::uint64_t kTermField = 1;
constexpr std::uint64_t kPostingField = 4;

/// How long a field of a PostingsList may be.
std::uint64_t most_list_bytes(std::uint64_t number) {
    return number == kPostingField ? kMaxPosting : protobuf::kMaxMessage;
}

/// Reads a posting in its usual form: a gap, if it is not 0, then a tf, both of at most five bytes. Writers of CIFF
/// make no other, so this is the loop that a file spends its time in. False where a posting looks otherwise.
bool read_usual_posting(std::string_view content, CiffPosting& posting) {
    const char* at = content.data();
    const char* const end = at + content.size();
    const auto number = [&](std::uint64_t& value) {
        value = 0;
        for (unsigned shift = 0; at != end && shift < 35; shift += 7) {
            const auto byte = static_cast<unsigned char>(*at++);
            value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
            if (byte < 0x80) return true;
        }
        return false;
    };
    posting.gap = 0;
    if (at != end && *at == 0x08) {
        ++at;
        if (!number(posting.gap)) return false;
    }
    if (at == end || *at != 0x10) return false;
    ++at;
    return number(posting.tf) && at == end;
}

/// Reads a posting in any form that protobuf allows: fields in any order, unknown ones among them, zeros left out.
CiffPosting read_posting(std::string_view content) {
    CiffPosting posting;
    if (read_usual_posting(content, posting)) return posting;
    posting = {};
    while (!content.empty()) {
        const protobuf::Field field = protobuf::take_field(content);
        if (field.type != protobuf::WireType::varint) continue;
        if (field.number == 1) posting.gap = field.value;
        if (field.number == 2) posting.tf = field.value;
    }
    return posting;
}

}  // namespace

void CiffParser::fail(const std::string& what) const {
    throw InputError(where() + ": " + what);
}

std::string CiffParser::where() const {
    switch (state_) {
        case State::header:
            return "header";
        case State::lists:
        case State::in_list: {
            const std::uint64_t number = terms_.size() + (state_ == State::lists || !has_term_ ? 1 : 0);
            std::string text = "postings list " + std::to_string(number) + " of " + std::to_string(header_.num_lists);
            if (state_ == State::in_list && has_term_) text += " (" + shown(terms_[terms_.size() - 1]) + ")";
            return text;
        }
        default:
            return "document record " + std::to_string(docs_seen_ + 1) + " of " + std::to_string(header_.num_docs);
    }
}

void CiffParser::feed(std::string_view data) {
    if (has_header() && bucket_docs_ == 0) throw std::logic_error("expected set_bucket_docs before more is fed");
    if (carry_.empty()) {
        carry_ = consume(data);
        return;
    }
    carry_.append(data);
    const std::string_view rest = consume(carry_);
    carry_.erase(0, carry_.size() - rest.size());
}

void CiffParser::finish() {
    if (state_ == State::done) {
        for (std::size_t i = 0; i < buckets_.size(); ++i) {
            if (!buckets_[i].empty()) blocks_.push_back({i, std::move(buckets_[i])});
        }
        buckets_.clear();
        return;
    }
    throw InputError("the file ends too early, in " + where() + "; copy it again");
}

void CiffParser::set_bucket_docs(std::uint64_t docs) {
    bucket_docs_ = std::max<std::uint64_t>(docs, 1);
    buckets_.resize((header_.num_docs + bucket_docs_ - 1) / bucket_docs_);
}

std::vector<CiffBlock> CiffParser::take_blocks() {
    return std::exchange(blocks_, {});
}

std::string_view CiffParser::consume(std::string_view data) {
    try {
        while (!data.empty()) {
            bool going = false;
            switch (state_) {
                case State::header:
                    going = consume_header(data);
                    if (going) return data;  // the caller chooses the buckets now
                    break;
                case State::lists:
                    going = consume_list_start(data);
                    break;
                case State::in_list:
                    going = consume_in_list(data);
                    break;
                case State::docs:
                    going = consume_doc(data);
                    break;
                case State::done:
                    throw InputError("expected the end of the file, got more");
            }
            if (!going) break;
        }
    } catch (const InputError& error) {
        if (state_ == State::done) throw;
        fail(error.what());
    }
    return data;
}

bool CiffParser::consume_header(std::string_view& data) {
    std::string_view message;
    if (!protobuf::take_message(data, message)) return false;
    while (!message.empty()) {
        const protobuf::Field field = protobuf::take_field(message);
        if (field.type != protobuf::WireType::varint) continue;
        if (field.number == 1) header_.version = field.value;
        if (field.number == 2) header_.num_lists = field.value;
        if (field.number == 3) header_.num_docs = field.value;
    }
    if (header_.version != 1) throw InputError("expected version 1, got " + std::to_string(header_.version));
    if (header_.num_lists > kMaxDocs || header_.num_docs > kMaxDocs) throw InputError("impossible counts");
    state_ = State::lists;
    if (header_.num_lists == 0) after_lists();
    return true;
}

bool CiffParser::consume_list_start(std::string_view& data) {
    if (!take_varint(data, list_left_)) return false;
    state_ = State::in_list;
    has_term_ = has_postings_ = false;
    doc_ = 0;
    if (list_left_ == 0) end_list();
    return true;
}

bool CiffParser::consume_in_list(std::string_view& data) {
    // Fields are taken one by one: a list may be larger than any buffer.
    std::string_view rest = data.substr(0, std::min<std::uint64_t>(list_left_, data.size()));
    const bool whole = rest.size() == list_left_;
    const std::size_t before = rest.size();
    protobuf::Field field;
    while (!rest.empty()) {
        if (!protobuf::take_field_if_whole(rest, field, most_list_bytes)) {
            if (whole) throw InputError("a list ends inside a field");
            break;
        }
        if (field.type != protobuf::WireType::bytes) continue;
        if (field.number == kTermField) take_term(field.bytes);
        if (field.number == kPostingField) add_posting(read_posting(field.bytes));
    }
    const std::size_t used = before - rest.size();
    data.remove_prefix(used);
    list_left_ -= used;
    if (list_left_ == 0) end_list();
    return list_left_ == 0 || used > 0;
}

void CiffParser::take_term(std::string_view term) {
    if (has_term_) throw InputError("it has two terms");
    if (!is_utf8(term)) throw InputError("expected a term in UTF-8, got other bytes");
    add_term(term);
}

void CiffParser::add_posting(const CiffPosting& posting) {
    move_to_next_doc(posting.gap);
    if (posting.tf > kMaxTf) throw InputError("expected weights >= 0, got a negative one");
    if (doc_ >= bucket_end_ || bucket_end_ == 0) start_run();
    std::string& bucket = buckets_[bucket_];
    append_varint(doc_ + 1 - run_doc_, bucket);
    append_varint(posting.tf, bucket);
    run_doc_ = doc_ + 1;
    ++num_postings_;
    if (bucket.size() >= block_bytes_) {
        blocks_.push_back({bucket_, std::move(bucket)});
        bucket.clear();
        bucket.reserve(block_bytes_ + kMaxVarint * 3);
    }
}

void CiffParser::move_to_next_doc(std::uint64_t gap) {
    if (has_postings_ && gap == 0) throw InputError("expected documents that ascend, got one twice");
    doc_ = has_postings_ ? doc_ + gap : gap;
    has_postings_ = true;
    if (gap > kMaxDocs || doc_ >= header_.num_docs) {
        throw InputError("expected documents from 0 to " + std::to_string(header_.num_docs) + " - 1, got " +
                         (gap > kMaxDocs ? "an impossible gap" : std::to_string(doc_)));
    }
}

void CiffParser::start_run() {
    end_run();
    bucket_ = doc_ / bucket_docs_;
    bucket_end_ = (bucket_ + 1) * bucket_docs_;
    run_doc_ = bucket_ * bucket_docs_;
    // The number of this list, whether its term came already or not.
    append_varint(terms_.size() - (has_term_ ? 1 : 0), buckets_[bucket_]);
}

void CiffParser::add_term(std::string_view term) {
    if (!terms_.find_or_add(term).is_new) throw InputError("expected every term once, got " + shown(term) + " again");
    has_term_ = true;
}

void CiffParser::end_run() {
    if (bucket_end_ != 0) append_varint(0, buckets_[bucket_]);
    bucket_end_ = 0;
}

void CiffParser::end_list() {
    end_run();
    if (!has_term_) add_term("");  // protobuf leaves an empty term out
    state_ = State::lists;
    if (terms_.size() == header_.num_lists) after_lists();
}

void CiffParser::after_lists() {
    state_ = header_.num_docs > 0 ? State::docs : State::done;
}

bool CiffParser::consume_doc(std::string_view& data) {
    std::string_view message;
    if (!protobuf::take_message(data, message)) return false;
    std::uint64_t row = 0;
    std::string_view id;
    while (!message.empty()) {
        const protobuf::Field field = protobuf::take_field(message);
        if (field.number == 1 && field.type == protobuf::WireType::varint) row = field.value;
        if (field.number == 2 && field.type == protobuf::WireType::bytes) id = field.bytes;
    }
    if (row >= header_.num_docs) {
        throw InputError("expected a docid from 0 to " + std::to_string(header_.num_docs) + " - 1, got another");
    }
    if (!is_utf8(id)) throw InputError("expected an id in UTF-8, got other bytes");
    doc_rows_.push_back(static_cast<std::uint32_t>(row));
    doc_ids_.add(id);
    if (++docs_seen_ == header_.num_docs) {
        number_docs();
        state_ = State::done;
    }
    return true;
}

void CiffParser::number_docs() {
    doc_number_.assign(header_.num_docs, kMissing);
    for (docs_seen_ = 0; docs_seen_ < header_.num_docs; ++docs_seen_) {
        const std::uint32_t row = doc_rows_[docs_seen_];
        if (doc_number_[row] != kMissing) {
            throw InputError("expected every document once, got docid " + std::to_string(row) + " again");
        }
        doc_number_[row] = static_cast<std::uint32_t>(docs_seen_);
    }
    doc_rows_ = {};
}

VectorRows read_ciff_bucket(std::string_view bytes, std::uint64_t first_doc, std::uint64_t num_docs) {
    const auto damaged = [] { throw InputError("what was kept on disk came back damaged"); };
    const auto visit = [&](auto&& posting) {
        std::string_view rest = bytes;
        std::uint64_t term = 0;
        while (!rest.empty()) {
            if (!take_varint(rest, term)) damaged();
            for (std::uint64_t doc = first_doc;;) {
                std::uint64_t gap = 0;
                std::uint64_t tf = 0;
                if (!take_varint(rest, gap)) damaged();
                if (gap == 0) break;
                if (!take_varint(rest, tf)) damaged();
                doc += gap;
                if (gap > num_docs || doc > first_doc + num_docs) damaged();
                posting(doc - 1 - first_doc, term, tf);
            }
        }
    };
    VectorRows rows;
    rows.indptr.assign(num_docs + 1, 0);
    visit([&](std::uint64_t row, std::uint64_t, std::uint64_t) { ++rows.indptr[row + 1]; });
    for (std::size_t i = 1; i < rows.indptr.size(); ++i) rows.indptr[i] += rows.indptr[i - 1];
    const auto count = static_cast<std::size_t>(rows.indptr.back());
    rows.terms.resize(count);
    rows.weights.resize(count);
    std::vector<std::int64_t> place(rows.indptr.begin(), rows.indptr.end() - 1);
    visit([&](std::uint64_t row, std::uint64_t term, std::uint64_t tf) {
        const auto at = static_cast<std::size_t>(place[row]++);
        rows.terms[at] = static_cast<std::uint32_t>(term);
        rows.weights[at] = static_cast<double>(tf);
    });
    return rows;
}

void append_ciff_list(std::string_view term, std::span<const std::uint32_t> rows, std::span<const std::uint32_t> tfs,
                      std::string& out) {
    assert(rows.size() == tfs.size() && std::is_sorted(rows.begin(), rows.end()));
    std::uint64_t size = 0;
    std::uint64_t total = 0;
    const auto posting_size = [&](std::uint64_t gap, std::uint64_t tf) {
        return (gap == 0 ? 0 : 1 + varint_size(gap)) + 1 + varint_size(tf);
    };
    const auto gap_of = [&](std::size_t i) { return i == 0 ? rows[0] : rows[i] - rows[i - 1]; };
    for (std::size_t i = 0; i < rows.size(); ++i) {
        size += 2 + posting_size(gap_of(i), tfs[i]);
        total += tfs[i];
    }
    size += (term.empty() ? 0 : 1 + varint_size(term.size()) + term.size()) + 1 + varint_size(rows.size()) + 1 +
            varint_size(total);
    append_varint(size, out);
    if (!term.empty()) {
        out.push_back(0x0A);
        append_varint(term.size(), out);
        out.append(term);
    }
    out.push_back(0x10);
    append_varint(rows.size(), out);
    out.push_back(0x18);
    append_varint(total, out);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::uint64_t gap = gap_of(i);
        out.push_back(0x22);
        out.push_back(static_cast<char>(posting_size(gap, tfs[i])));
        if (gap != 0) {
            out.push_back(0x08);
            append_varint(gap, out);
        }
        out.push_back(0x10);
        append_varint(tfs[i], out);
    }
}

void append_ciff_doc(std::uint64_t row, std::string_view id, std::uint64_t length, std::string& out) {
    std::string message;
    if (row != 0) {
        message.push_back(0x08);
        append_varint(row, message);
    }
    if (!id.empty()) {
        message.push_back(0x12);
        append_varint(id.size(), message);
        message.append(id);
    }
    if (length != 0) {
        message.push_back(0x18);
        append_varint(length, message);
    }
    append_varint(message.size(), out);
    out.append(message);
}

}  // namespace segmax
