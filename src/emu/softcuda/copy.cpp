// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// memcpy and memset. Arguments are checked and resolved when a call is made, bytes move when the
// stream gets there.
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/memory.hpp"
#include "emu/softcuda/work.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>

namespace softcuda {

namespace {

enum class Mode { sync, async };

struct Range {
    uintptr_t address;
    Space space;
};

int device_of(CUstream handle)
{
    return resolve_stream(handle)->context->device;
}

/// Also device memory may be given where a function's name says host.
Range host(const void* pointer)
{
    return {as_address(pointer), Space::any};
}
Range on_device(CUdeviceptr address)
{
    return {address, Space::device};
}
Range anywhere(CUdeviceptr address)
{
    return {address, Space::any};
}

// Whether it was a small copy of whole words.
template <typename Word>
bool store_words(char* to, const char* from, size_t size)
{
    std::array<Word, 64> words;
    if (size > sizeof(words) || size % sizeof(Word) != 0 || as_address(to) % sizeof(Word) != 0) {
        return false;
    }
    std::memcpy(words.data(), from, size);
    for (size_t i = 0; i < size / sizeof(Word); ++i) {
        std::atomic_ref<Word>(*reinterpret_cast<Word*>(to + i * sizeof(Word)))
            .store(words[i], std::memory_order_release);
    }
    return true;
}

// Streams and kernels may be looking at the words that a small copy writes: each changes whole, as
// on a GPU.
void store(char* to, const char* from, size_t size)
{
    if (!store_words<uint64_t>(to, from, size) && !store_words<uint32_t>(to, from, size)) {
        std::memmove(to, from, size);
    }
}

void move(const Pieces& destination, const Pieces& source)
{
    auto d = destination.begin();
    auto s = source.begin();
    size_t d_done = 0, s_done = 0;
    while (d != destination.end() && s != source.end()) {
        size_t n = std::min(d->size - d_done, s->size - s_done);
        store(d->start + d_done, s->seen() + s_done, n);
        if (d->view != 0) {
            store(d->start + d->view + d_done, d->start + d_done, n);
        }
        if ((d_done += n) == d->size) {
            ++d;
            d_done = 0;
        }
        if ((s_done += n) == s->size) {
            ++s;
            s_done = 0;
        }
    }
}

void append(Pieces& to, const Pieces& more)
{
    to.insert(to.end(), more.begin(), more.end());
}

template <typename Value>
void fill(const Pieces& where, Value value)
{
    char bytes[sizeof(Value)];
    std::memcpy(bytes, &value, sizeof(value));
    for (const auto& [start, size, view] : where) {
        if constexpr (sizeof(Value) == 1) {
            std::memset(start, bytes[0], size);
        } else {
            for (size_t i = 0; i < size; i += sizeof(Value)) {
                store(start + i, bytes, sizeof(Value));
            }
        }
        if (view != 0) {
            store(start + view, start, size);
        }
    }
}

Operation copying(std::function<void()> run)
{
    return {.run = std::move(run), .delayed = true, .type = CU_GRAPH_NODE_TYPE_MEMCPY};
}

template <typename Value>
Operation filling(Pieces where, Value value)
{
    return {.run = [where = std::move(where), value] { fill(where, value); },
            .delayed = true,
            .type = CU_GRAPH_NODE_TYPE_MEMSET};
}

CUresult issue(CUstream handle, Mode mode, Operation operation)
{
    CUstream stream = resolve_stream(handle);
    if (mode == Mode::async) {
        enqueue(stream, std::move(operation));
    } else {
        execute(stream, std::move(operation));
    }
    return CUDA_SUCCESS;
}

/// Pinned is host memory that the driver knows, pageable what it cannot reach later.
enum class Place { gpu, pinned, pageable };

Place place_of(uintptr_t address)
{
    const auto allocation = find(address);
    if (!allocation) {
        return Place::pageable;
    }
    return allocation->kind >= Kind::host_alloc ? Place::pinned : Place::gpu;
}

/// As with the real driver a pageable source is staged before the call returns, a pageable
/// destination is filled before the call returns, and a copy from host memory to host memory is
/// done then; in a graph all are used when it runs.
CUresult issue_copy(CUstream handle, Mode mode, Pieces destination, Pieces source, Place to,
                    Place from)
{
    const bool pageable_destination = to == Place::pageable;
    const bool pageable_source = from == Place::pageable;
    if (mode == Mode::async &&
        (pageable_destination ||
         (to != Place::gpu && from != Place::gpu && capture_of(resolve_stream(handle)) == 0))) {
        mode = Mode::sync;
    }
    if (mode == Mode::async && pageable_source && capture_of(resolve_stream(handle)) == 0) {
        size_t length = 0;
        for (const Piece& piece : source) {
            length += piece.size;
        }
        auto staged = std::make_shared<std::vector<char>>(length);
        Pieces stage{{staged->data(), length}};
        move(stage, source);
        return issue(handle, mode, copying([=] {
                         move(destination, {{staged->data(), staged->size()}});
                     }));
    }
    if (mode == Mode::sync && (pageable_destination || pageable_source) &&
        capture_of(resolve_stream(handle)) == 0) {
        require_no_capture();
    }
    return issue(handle, mode,
                 copying([d = std::move(destination), s = std::move(source)] { move(d, s); }));
}

CUresult copy(CUstream handle, Mode mode, Range destination, Range source, size_t length)
{
    if (length == 0) {
        return CUDA_SUCCESS;
    }
    const int device = device_of(handle);
    return issue_copy(handle, mode, pieces(destination.address, length, destination.space, device),
                      pieces(source.address, length, source.space, device),
                      place_of(destination.address), place_of(source.address));
}

/// Each side is in the reach of its own context's device.
CUresult copy_peer(CUstream handle, Mode mode, CUdeviceptr destination,
                   CUcontext destination_context, CUdeviceptr source, CUcontext source_context,
                   size_t length)
{
    return issue_copy(
        handle, mode, pieces(destination, length, Space::device, destination_context->device),
        pieces(source, length, Space::device, source_context->device), Place::gpu, Place::gpu);
}

Range plane(CUmemorytype type, const void* host_pointer, CUdeviceptr device_pointer)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        return host(host_pointer);
    case CU_MEMORYTYPE_DEVICE:
        return on_device(device_pointer);
    case CU_MEMORYTYPE_UNIFIED:
        return anywhere(device_pointer);
    default:
        throw Error{CUDA_ERROR_NOT_SUPPORTED}; // arrays
    }
}

Pieces rows(Range range, int device, size_t x, size_t y, size_t pitch, size_t width, size_t height)
{
    require(pitch == 0 || pitch >= x + width);
    Pieces all;
    for (size_t row = 0; row < height; ++row) {
        append(all, pieces(range.address + (y + row) * (pitch != 0 ? pitch : width) + x, width,
                           range.space, device));
    }
    return all;
}

CUresult copy_2d(CUstream handle, Mode mode, const CUDA_MEMCPY2D* copy)
{
    require(copy != nullptr);
    if (copy->WidthInBytes == 0 || copy->Height == 0) {
        return CUDA_SUCCESS;
    }
    Range destination = plane(copy->dstMemoryType, copy->dstHost, copy->dstDevice);
    Range source = plane(copy->srcMemoryType, copy->srcHost, copy->srcDevice);
    const int device = device_of(handle);
    return issue_copy(handle, mode,
                      rows(destination, device, copy->dstXInBytes, copy->dstY, copy->dstPitch,
                           copy->WidthInBytes, copy->Height),
                      rows(source, device, copy->srcXInBytes, copy->srcY, copy->srcPitch,
                           copy->WidthInBytes, copy->Height),
                      place_of(destination.address), place_of(source.address));
}

template <typename Value>
CUresult set(CUstream handle, Mode mode, CUdeviceptr address, Value value, size_t count)
{
    require(address % sizeof(Value) == 0);
    if (count == 0) {
        return CUDA_SUCCESS;
    }
    return issue(
        handle, mode,
        filling(pieces(address, count * sizeof(Value), Space::device, device_of(handle)), value));
}

template <typename Value>
Operation fill_rows(CUdeviceptr address, size_t pitch, Value value, size_t width, size_t height,
                    int ordinal)
{
    require(address % sizeof(Value) == 0 && pitch % sizeof(Value) == 0);
    return filling(rows(on_device(address), ordinal, 0, 0, pitch, width * sizeof(Value), height),
                   value);
}

template <typename Value>
CUresult set_2d(CUstream handle, Mode mode, CUdeviceptr address, size_t pitch, Value value,
                size_t width, size_t height)
{
    if (width == 0 || height == 0) {
        return CUDA_SUCCESS;
    }
    return issue(handle, mode, fill_rows(address, pitch, value, width, height, device_of(handle)));
}

/// A box in memory, as its rows.
Pieces box(Range range, int ordinal, const CUDA_MEMCPY3D& copy, size_t x, size_t y, size_t z,
           size_t pitch, size_t height)
{
    Pieces all;
    for (size_t slice = 0; slice < copy.Depth; ++slice) {
        const Range here{range.address + (z + slice) * pitch * height, range.space};
        append(all, rows(here, ordinal, x, y, pitch, copy.WidthInBytes, copy.Height));
    }
    return all;
}

} // namespace

Operation copy_3d(const CUDA_MEMCPY3D& copy, int ordinal)
{
    require(copy.WidthInBytes > 0 && copy.Height > 0 && copy.Depth > 0);
    require(copy.Depth == 1 ||
            (copy.srcPitch > 0 && copy.dstPitch > 0 && copy.srcHeight >= copy.srcY + copy.Height &&
             copy.dstHeight >= copy.dstY + copy.Height));
    return copying([d = box(plane(copy.dstMemoryType, copy.dstHost, copy.dstDevice), ordinal, copy,
                            copy.dstXInBytes, copy.dstY, copy.dstZ, copy.dstPitch, copy.dstHeight),
                    s = box(plane(copy.srcMemoryType, copy.srcHost, copy.srcDevice), ordinal, copy,
                            copy.srcXInBytes, copy.srcY, copy.srcZ, copy.srcPitch,
                            copy.srcHeight)] { move(d, s); });
}

Operation memset_2d(const CUDA_MEMSET_NODE_PARAMS& memset, int ordinal)
{
    require(memset.width > 0 && memset.height > 0);
    const auto fill = [&](auto value) {
        return fill_rows(memset.dst, memset.height > 1 ? memset.pitch : 0, value, memset.width,
                         memset.height, ordinal);
    };
    switch (memset.elementSize) {
    case 1:
        return fill(static_cast<uint8_t>(memset.value));
    case 2:
        return fill(static_cast<uint16_t>(memset.value));
    case 4:
        return fill(uint32_t{memset.value});
    default:
        throw Error{CUDA_ERROR_INVALID_VALUE};
    }
}

} // namespace softcuda

using namespace softcuda;

// ---- copies; with a stream of their own they need no current context

CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, size_t length)
{
    return api(__func__, Needs::context, [&] {
        return copy(nullptr, Mode::sync, anywhere(destination), anywhere(source), length);
    });
}

CUresult cuMemcpyHtoD(CUdeviceptr destination, const void* source, size_t length)
{
    return api(__func__, Needs::context, [&] {
        return copy(nullptr, Mode::sync, on_device(destination), host(source), length);
    });
}

CUresult cuMemcpyDtoH(void* destination, CUdeviceptr source, size_t length)
{
    return api(__func__, Needs::context, [&] {
        return copy(nullptr, Mode::sync, host(destination), on_device(source), length);
    });
}

CUresult cuMemcpyDtoD(CUdeviceptr destination, CUdeviceptr source, size_t length)
{
    return api(__func__, Needs::context, [&] {
        return copy(nullptr, Mode::sync, on_device(destination), on_device(source), length);
    });
}

CUresult cuMemcpyPeer(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
                      CUcontext source_context, size_t length)
{
    return api(__func__, Needs::context, [&] {
        return copy_peer(nullptr, Mode::sync, destination, live_context(destination_context),
                         source, live_context(source_context), length);
    });
}

CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t length, CUstream stream)
{
    return api(__func__, Needs::init, [&] {
        return copy(stream, Mode::async, anywhere(destination), anywhere(source), length);
    });
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr destination, const void* source, size_t length,
                           CUstream stream)
{
    return api(__func__, Needs::init, [&] {
        return copy(stream, Mode::async, on_device(destination), host(source), length);
    });
}

CUresult cuMemcpyDtoHAsync(void* destination, CUdeviceptr source, size_t length, CUstream stream)
{
    return api(__func__, Needs::init, [&] {
        return copy(stream, Mode::async, host(destination), on_device(source), length);
    });
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr destination, CUdeviceptr source, size_t length,
                           CUstream stream)
{
    return api(__func__, Needs::init, [&] {
        return copy(stream, Mode::async, on_device(destination), on_device(source), length);
    });
}

CUresult cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext destination_context,
                           CUdeviceptr source, CUcontext source_context, size_t length,
                           CUstream stream)
{
    return api(__func__, Needs::init, [&] {
        return copy_peer(stream, Mode::async, destination, live_context(destination_context),
                         source, live_context(source_context), length);
    });
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D* what)
{
    return api(__func__, Needs::context, [&] { return copy_2d(nullptr, Mode::sync, what); });
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* what)
{
    return api(__func__, Needs::context, [&] { return copy_2d(nullptr, Mode::sync, what); });
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* what, CUstream stream)
{
    return api(__func__, Needs::init, [&] { return copy_2d(stream, Mode::async, what); });
}

// ---- memset

CUresult cuMemsetD8(CUdeviceptr address, unsigned char value, size_t count)
{
    return api(__func__, Needs::context,
               [&] { return set(nullptr, Mode::sync, address, value, count); });
}

CUresult cuMemsetD16(CUdeviceptr address, unsigned short value, size_t count)
{
    return api(__func__, Needs::context,
               [&] { return set(nullptr, Mode::sync, address, value, count); });
}

CUresult cuMemsetD32(CUdeviceptr address, unsigned value, size_t count)
{
    return api(__func__, Needs::context,
               [&] { return set(nullptr, Mode::sync, address, value, count); });
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count, CUstream stream)
{
    return api(__func__, Needs::init,
               [&] { return set(stream, Mode::async, address, value, count); });
}

CUresult cuMemsetD16Async(CUdeviceptr address, unsigned short value, size_t count, CUstream stream)
{
    return api(__func__, Needs::init,
               [&] { return set(stream, Mode::async, address, value, count); });
}

CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, CUstream stream)
{
    return api(__func__, Needs::init,
               [&] { return set(stream, Mode::async, address, value, count); });
}

CUresult cuMemsetD2D8(CUdeviceptr address, size_t pitch, unsigned char value, size_t width,
                      size_t height)
{
    return api(__func__, Needs::context,
               [&] { return set_2d(nullptr, Mode::sync, address, pitch, value, width, height); });
}

CUresult cuMemsetD2D16(CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
                       size_t height)
{
    return api(__func__, Needs::context,
               [&] { return set_2d(nullptr, Mode::sync, address, pitch, value, width, height); });
}

CUresult cuMemsetD2D32(CUdeviceptr address, size_t pitch, unsigned value, size_t width,
                       size_t height)
{
    return api(__func__, Needs::context,
               [&] { return set_2d(nullptr, Mode::sync, address, pitch, value, width, height); });
}

CUresult cuMemsetD2D8Async(CUdeviceptr address, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream)
{
    return api(__func__, Needs::init,
               [&] { return set_2d(stream, Mode::async, address, pitch, value, width, height); });
}

CUresult cuMemsetD2D16Async(CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream)
{
    return api(__func__, Needs::init,
               [&] { return set_2d(stream, Mode::async, address, pitch, value, width, height); });
}

CUresult cuMemsetD2D32Async(CUdeviceptr address, size_t pitch, unsigned value, size_t width,
                            size_t height, CUstream stream)
{
    return api(__func__, Needs::init,
               [&] { return set_2d(stream, Mode::async, address, pitch, value, width, height); });
}
