// Matrix descriptors of wgmma: where the elements of an operand are in shared memory.
//
// An operand has rows of M (A) or N (B), called mn here, and steps of k. It is K-major if successive elements along k are
// contiguous, MN-major if those along mn are: in chunks of 16 bytes. Eight chunks are a core matrix, whose 8 rows follow each
// other along the other dimension. The leading and the stride offset lead to further core matrices:
//
//                           chunks of a core matrix        stride offset   leading offset
//   no swizzle, K-major     16 bytes apart                 next 8 of mn    next 16 bytes of k
//   no swizzle, MN-major    16 bytes apart                 next 16 bytes   next 8 of k
//                                                          of mn
//   swizzled, K-major       as many bytes apart as the     next 8 of mn    not used
//   swizzled, MN-major      swizzle has: 32, 64 or 128     next 8 of k     next 32, 64 or 128 bytes of mn
//
// A swizzle permutes the chunks of such a row: bits 4.. of the address are xored with bits 7.., less the base offset.
// benchmarks/studies/wgmma_operands.py measures all this with random descriptors.
//
// Depends on: nothing
#pragma once

#include <cstdint>
#include <cstring>

namespace tiledmm_detail {

constexpr unsigned CHUNK = 16;                        // bytes that are contiguous in all layouts
constexpr unsigned DESCRIPTOR_WINDOW = 256 * 1024;   // addresses have 18 bits

// All in bytes, but for the base offset, which counts rows of 128 bytes.
struct Descriptor {
    unsigned address, leading, stride, base_offset, swizzle;   // swizzle: 0, 32, 64 or 128
};

inline Descriptor decode(uint64_t bits) {
    constexpr unsigned SWIZZLES[4] = {0, 128, 64, 32};
    const auto field = [bits](unsigned first) { return static_cast<unsigned>(bits >> first & 0x3fff) * CHUNK; };
    return {field(0), field(16), field(32), static_cast<unsigned>(bits >> 49 & 7), SWIZZLES[bits >> 62]};
}

// Where the hardware finds a byte that without swizzle would be at an offset from the descriptor's address.
inline unsigned swizzled_address(const Descriptor& d, unsigned offset) {
    const unsigned at = (d.address + offset) % DESCRIPTOR_WINDOW;
    if (d.swizzle == 0) return at;
    return at ^ (((at >> 7) - d.base_offset) & (d.swizzle / CHUNK - 1)) * CHUNK;
}

// Where an element would be without swizzle, from the descriptor's address on.
inline unsigned offset_before_swizzle(const Descriptor& d, bool mn_major, unsigned mn, unsigned k, unsigned element_bytes) {
    const unsigned row = mn_major ? k : mn, byte = (mn_major ? mn : k) * element_bytes;   // of rows of successive elements
    if (d.swizzle == 0) {
        const unsigned next_rows = mn_major ? d.leading : d.stride, next_chunk = mn_major ? d.stride : d.leading;
        return row / 8 * next_rows + byte / CHUNK * next_chunk + row % 8 * CHUNK + byte % CHUNK;
    }
    return row / 8 * d.stride + row % 8 * d.swizzle + (mn_major ? byte / d.swizzle * d.leading + byte % d.swizzle : byte);
}

// The address of an element.
inline unsigned offset_of(const Descriptor& d, bool mn_major, unsigned mn, unsigned k, unsigned element_bytes) {
    return swizzled_address(d, offset_before_swizzle(d, mn_major, mn, k, element_bytes));
}

// Copies rows of an operand to `out`: [count][k], without gaps. Both `first` and `count` are multiples of 8.
//   k     elements of a row, 32 bytes in all
//   read  read(address, bytes) returns a pointer to as many bytes of shared memory; it is called once for each chunk of 16
template <class Read>
inline void gather(const Descriptor& d, bool mn_major, unsigned first, unsigned count, unsigned k, unsigned element_bytes,
                   Read read, uint8_t* out) {
    const unsigned row_bytes = k * element_bytes, elements = CHUNK / element_bytes;   // of a chunk
    const auto chunk_at = [&](unsigned mn, unsigned i) {
        return static_cast<const uint8_t*>(read(offset_of(d, mn_major, first + mn, i, element_bytes), CHUNK));
    };
    if (!mn_major) {
        for (unsigned mn = 0; mn < count; ++mn)
            for (unsigned i = 0; i < k; i += elements)
                std::memcpy(out + mn * row_bytes + i * element_bytes, chunk_at(mn, i), CHUNK);
        return;
    }
    for (unsigned i = 0; i < k; ++i)
        for (unsigned mn = 0; mn < count; mn += elements) {
            const uint8_t* const chunk = chunk_at(mn, i);
            for (unsigned j = 0; j < elements; ++j)
                std::memcpy(out + (mn + j) * row_bytes + i * element_bytes, chunk + j * element_bytes, element_bytes);
        }
}

// Wavefronts of the reads of this many rows: one for each core matrix, because its chunks are in distinct groups of four banks,
// wherever the operand begins and however it is swizzled.
inline unsigned wavefronts(unsigned count, unsigned k, unsigned element_bytes) {
    return count * k * element_bytes / (8 * CHUNK);
}

}   // namespace tiledmm_detail
