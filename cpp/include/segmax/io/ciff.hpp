// CIFF, the Common Index File Format: a stream of protobuf messages, each behind its length as a varint.
//
//   Header        1 version, 2 num_postings_lists, 3 num_docs, ..., 8 description
//   PostingsList  (num_postings_lists times) 1 term, 2 df, 3 cf, 4 Posting { 1 docid, as a gap; 2 tf } repeated
//   DocRecord     (num_docs times) 1 docid, 2 collection_docid, 3 doclength
//
// Lists are sorted by term, and documents are needed. The parser deals postings out to buckets of neighboring
// documents, as bytes that its caller keeps on disk; a bucket is then small enough to be sorted in memory:
//
//   bucket: { varint term, { varint (gap from the document before, the first from the one before the bucket) > 0,
//             varint tf }, varint 0 } repeated
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "segmax/io/json_vectors.hpp"
#include "segmax/io/text.hpp"

namespace segmax {

struct CiffHeader {
    std::uint64_t version = 0;
    std::uint64_t num_lists = 0;
    std::uint64_t num_docs = 0;
};

/// A posting as CIFF stores it.
struct CiffPosting {
    std::uint64_t gap = 0;  ///< from the document before; the first counts from 0
    std::uint64_t tf = 0;   ///< the weight
};

/// A piece of a bucket.
struct CiffBlock {
    std::size_t bucket;
    std::string bytes;
};

/// Parses a file that comes in pieces.
class CiffParser {
public:
    /// Blocks are handed out once they have `block_bytes`.
    explicit CiffParser(std::size_t block_bytes = 1U << 16U) : block_bytes_(block_bytes) {}

    /// Takes the next bytes of the file. Throws InputError where they are invalid.
    void feed(std::string_view data);
    /// Ends the file. Throws InputError if something is missing.
    void finish();
    bool has_header() const { return state_ != State::header; }
    bool is_done() const { return state_ == State::done; }
    const CiffHeader& header() const { return header_; }
    /// Sets the number of documents per bucket. Call it once, after the header and before more is fed.
    void set_bucket_docs(std::uint64_t docs);
    /// Blocks that are full, and after `finish` all others.
    std::vector<CiffBlock> take_blocks();

    const Vocabulary& terms() const { return terms_; }
    /// The id of a document; those of all are known after `finish`.
    std::string_view doc_id(std::uint64_t row) const { return doc_ids_[doc_number_[row]]; }
    std::uint64_t num_postings() const { return num_postings_; }

private:
    enum class State { header, lists, in_list, docs, done };

    /// Parses as much as it can; returns what is left over.
    std::string_view consume(std::string_view data);
    bool consume_header(std::string_view& data);
    bool consume_list_start(std::string_view& data);
    bool consume_in_list(std::string_view& data);
    bool consume_doc(std::string_view& data);
    void add_term(std::string_view term);
    void number_docs();
    void end_list();
    void end_run();
    void take_term(std::string_view term);
    void add_posting(const CiffPosting& posting);
    void move_to_next_doc(std::uint64_t gap);
    void start_run();
    void after_lists();
    [[noreturn]] void fail(const std::string& what) const;
    std::string where() const;

    std::size_t block_bytes_;
    State state_ = State::header;
    std::string carry_;
    CiffHeader header_;
    std::uint64_t bucket_docs_ = 0;
    std::vector<std::string> buckets_;
    std::vector<CiffBlock> blocks_;

    std::uint64_t list_left_ = 0;  // bytes of the list under way
    bool has_term_ = false;
    bool has_postings_ = false;
    std::uint64_t doc_ = 0;         // the last one of the list under way
    std::size_t bucket_ = 0;        // that its run goes to
    std::uint64_t bucket_end_ = 0;  // the first document behind this bucket; 0: no run is open
    std::uint64_t run_doc_ = 0;     // the document, counted from 1, that the next gap starts from
    Vocabulary terms_;
    std::uint64_t num_postings_ = 0;

    std::uint64_t docs_seen_ = 0;
    TextList doc_ids_;
    std::vector<std::uint32_t> doc_rows_;    // of the records so far: they grow with the file, whatever it promises
    std::vector<std::uint32_t> doc_number_;  // of a row in doc_ids_, once all records are in
};

/// The rows of a bucket, terms ascending, weights as they are. Throws InputError if the bytes are damaged.
VectorRows read_ciff_bucket(std::string_view bytes, std::uint64_t first_doc, std::uint64_t num_docs);

/// Appends a PostingsList with its length in front. Rows ascend; every tf is at least 1.
void append_ciff_list(std::string_view term, std::span<const std::uint32_t> rows, std::span<const std::uint32_t> tfs,
                      std::string& out);

/// Appends a DocRecord with its length in front.
void append_ciff_doc(std::uint64_t row, std::string_view id, std::uint64_t length, std::string& out);

}  // namespace segmax
