// The heap of malloc, free, new and delete in kernels: 8 MiB, as a GPU has without cudaDeviceSetLimit.
//
// Memory that was freed is not given out again until there is no other, so that it is known that it was freed. Marks tell
// for each 16 bytes how many of them belong to an allocation; stamps tell who wrote and read them, as for arrays.
//
// Depends on: checks.h, readers.h, state.h
#pragma once

#include <sys/mman.h>

#include "checks.h"
#include "readers.h"
#include "state.h"

constexpr uint64_t HEAP_BYTES = 8 << 20;
constexpr uint64_t ARENA_BYTES = 4 * HEAP_BYTES;   // room for bytes between allocations, and for what was freed
constexpr uint64_t CHUNK = 16, APART = 48;         // bytes between two allocations
constexpr uint64_t OVERHEAD = 16;                  // of each, for the heap's own data: a GPU's has some
constexpr uint8_t FREED = CHUNK + 1;

// Where a run's heap is, if that is free: the same in each run, unless addresses are to differ.
constexpr uintptr_t HEAP_HINT = 0x2f0000000000;

inline bool in_heap(const Run& run, uintptr_t address) { return address - run.heap.begin.load(std::memory_order_acquire) < ARENA_BYTES; }

// The allocation that an address is in, or behind; else the first one. The heap is locked.
inline const Allocation* allocation_at(const Heap& heap, uintptr_t address) {
    if (heap.all.empty()) return nullptr;
    auto at = heap.all.upper_bound(address);
    if (at != heap.all.begin()) --at;
    return &at->second;
}

// Adds to a finding which allocation it is about.
inline void add_allocation(Run& run, Finding& finding, uintptr_t address) {
    if (!in_heap(run, address)) return;
    std::lock_guard<std::mutex> guard(run.heap.lock);
    if (const Allocation* found = allocation_at(run.heap, address)) {
        finding.allocation = found->begin;
        finding.allocated = found->bytes;
        finding.allocated_at = found->place;
    }
}

// Maps the heap at its first use. Returns false if there is no memory.
inline bool begin_heap(Run& run) {
    Heap& heap = run.heap;
    if (heap.begin != Heap::NOWHERE) return true;
    const uint64_t granules = ARENA_BYTES / 4, words = 6 * granules;
    const auto map = [](uintptr_t hint, uint64_t bytes) {
        void* pages = mmap(reinterpret_cast<void*>(hint), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
        return pages == MAP_FAILED ? nullptr : pages;
    };
    const uintptr_t hint = HEAP_HINT + run.launch.clock_rate * 2 * ARENA_BYTES;
    void* const memory = map(hint, ARENA_BYTES);
    heap.marks = static_cast<uint8_t*>(map(0, ARENA_BYTES / CHUNK));
    heap.stamps = static_cast<uint64_t*>(map(0, words * sizeof(uint64_t)));
    if (!memory || !heap.marks || !heap.stamps) return false;
    heap.operand = {reinterpret_cast<uint64_t>(memory), ARENA_BYTES, 4, nullptr, heap.stamps, heap.stamps + 2 * granules, 1, 0, nullptr};
    heap.next = reinterpret_cast<uintptr_t>(memory) + APART;
    heap.begin = reinterpret_cast<uintptr_t>(memory);
    return true;
}

inline void end_heap(Run& run) {
    Heap& heap = run.heap;
    if (heap.begin == Heap::NOWHERE) return;
    munmap(reinterpret_cast<void*>(heap.begin.load()), ARENA_BYTES);
    munmap(heap.marks, ARENA_BYTES / CHUNK);
    munmap(heap.stamps, ARENA_BYTES / 4 * 6 * sizeof(uint64_t));
}

inline uint64_t room_of(uint64_t bytes) { return (bytes + CHUNK - 1) / CHUNK * CHUNK; }

inline void mark(Heap& heap, const Allocation& of, bool is_freed) {
    for (uint64_t at = 0; at < room_of(of.bytes); at += CHUNK)
        heap.marks[(of.begin - heap.begin + at) / CHUNK] = is_freed ? FREED : static_cast<uint8_t>(std::min(of.bytes - at, CHUNK));
}

// Forgets who wrote and read memory that is given out again.
inline void forget(Run& run, uintptr_t begin, uint64_t bytes) {
    const uint64_t first = (begin - run.heap.begin) / 4;
    std::memset(reinterpret_cast<void*>(run.heap.operand.writes + 2 * first), 0, bytes / 4 * 16);
    for (uint64_t at = first; at < first + bytes / 4; ++at) {
        uint64_t* const slots = run.heap.operand.reads + 4 * at;
        std::memset(slots, 0, 32);
        ReaderShard& shard = run.shards[reinterpret_cast<uintptr_t>(slots) / 32 % READER_SHARDS];
        std::lock_guard<std::mutex> guard(shard.lock);
        shard.readers.erase(slots);
    }
}

// A place for an allocation; 0 if there is none. The heap is locked.
inline uintptr_t find_room(Run& run, uint64_t room, uint64_t alignment) {
    Heap& heap = run.heap;
    const uintptr_t begin = (heap.next + alignment - 1) / alignment * alignment;
    if (begin + room + APART <= heap.begin + ARENA_BYTES) {
        heap.next = begin + room + APART;
        return begin;
    }
    for (auto at = heap.freed.lower_bound(room); at != heap.freed.end(); ++at) {   // the least that is large enough
        const uintptr_t again = at->second;
        if (again % alignment) continue;
        const Allocation was = heap.all.at(again);
        std::memset(heap.marks + (again - heap.begin) / CHUNK, 0, room_of(was.bytes) / CHUNK);
        forget(run, again, room_of(was.bytes));
        heap.freed.erase(at);
        heap.all.erase(again);
        return again;
    }
    return 0;
}

inline void* allocate(Worker& w, uint64_t bytes, uint64_t alignment, const void* place) {
    Run& run = *w.run;
    Heap& heap = run.heap;
    std::lock_guard<std::mutex> guard(heap.lock);
    const uint64_t room = room_of(bytes);
    if (bytes > HEAP_BYTES || heap.used + room + OVERHEAD > HEAP_BYTES || !begin_heap(run)) return nullptr;
    const uintptr_t begin = find_room(run, room, std::max(alignment, CHUNK));
    if (!begin) return nullptr;
    heap.used += room + OVERHEAD;
    const Allocation made = {begin, bytes, reinterpret_cast<uint64_t>(place), 0, static_cast<unsigned>(w.block_number), w.current->thread};
    heap.all[begin] = made;
    mark(heap, made, false);
    std::memset(reinterpret_cast<void*>(begin), 0xff, room);   // NaN, as in arrays that nobody wrote
    return reinterpret_cast<void*>(begin);
}

enum class Freeing { DONE, TWICE, NOT_ALLOCATED };

inline Freeing release_allocation(Worker& w, uintptr_t address, const void* place) {
    Run& run = *w.run;
    Heap& heap = run.heap;
    std::lock_guard<std::mutex> guard(heap.lock);
    const auto found = heap.all.find(address);
    if (found == heap.all.end()) return Freeing::NOT_ALLOCATED;
    Allocation& of = found->second;
    if (of.freed_at) return Freeing::TWICE;
    of.freed_at = reinterpret_cast<uint64_t>(place);
    of.block = static_cast<unsigned>(w.block_number);
    of.thread = w.current->thread;
    heap.used -= room_of(of.bytes) + OVERHEAD;
    heap.freed.emplace(room_of(of.bytes), address);
    mark(heap, of, true);
    return Freeing::DONE;
}

// Of an access in the heap: whether it is within one allocation.
enum class InHeap { INSIDE, OUTSIDE, FREED_MEMORY };
inline InHeap look_in_heap(const Run& run, uintptr_t address, unsigned bytes) {
    const uintptr_t offset = address - run.heap.begin;
    for (uintptr_t at = offset / CHUNK; at * CHUNK < offset + bytes; ++at) {
        const uint8_t mark = at < ARENA_BYTES / CHUNK ? run.heap.marks[at] : 0;
        if (mark == FREED) return InHeap::FREED_MEMORY;
        if (std::min<uintptr_t>(offset + bytes - at * CHUNK, CHUNK) > mark) return InHeap::OUTSIDE;
    }
    return InHeap::INSIDE;
}

// Whether nobody has written any of the bytes since they were allocated.
inline bool is_unset_in_heap(const Run& run, uintptr_t address, unsigned bytes) {
    const uintptr_t offset = address - run.heap.begin;
    for (uintptr_t at = offset / 4; at * 4 < offset + bytes; ++at)
        if (__atomic_load_n(run.heap.operand.writes + 2 * at, __ATOMIC_RELAXED)) return false;
    return true;
}

// The thread that freed the memory at an address.
inline Other who_freed(const Run& run, uintptr_t address) {
    std::lock_guard<std::mutex> guard(const_cast<Heap&>(run.heap).lock);
    const Allocation* of = allocation_at(run.heap, address);
    return of ? Other{of->freed_at, of->block, of->thread, true} : Other{};
}
