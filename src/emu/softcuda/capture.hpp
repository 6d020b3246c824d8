// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Capture of streams into graphs: which streams are being captured, by whom and in which mode, and
// what must not be called meanwhile. What a captured stream is given becomes a node of the graph.
#pragma once

#include "emu/softcuda/graph.hpp"

namespace softcuda {

/// To be called by functions that the real driver calls potentially unsafe, since a capture does
/// not see what they do. Where the modes of the calling thread and of captures prohibit the call,
/// those captures are invalidated and CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED is thrown.
void require_no_capture();

/// To be called by what cannot be done to a stream that is being captured, in no mode: invalidates
/// the capture and throws.
void require_not_captured(CUstream stream);

/// The same for all streams of a context.
void require_not_captured(CUcontext context);

/// True if the stream is being captured: the operations given to it have been taken as one node of
/// the graph and must not be run. Throws CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, or
/// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy stream while a stream that it waits for is
/// being captured.
bool record(CUstream stream, Operations& operations);

/// The stream is about to be destroyed: a capture that it is in ends without a graph.
void drop_capture(CUstream stream);

/// The number of the capture that the stream is in, or 0.
uint64_t capture_of(CUstream stream);

/// A point in a captured stream, which an event stands for.
struct CapturedPoint {
    uint64_t capture = 0; // 0: in no capture
    std::vector<CUgraphNode> nodes{};
};

/// Where the stream is. Throws CUDA_ERROR_STREAM_CAPTURE_INVALIDATED.
CapturedPoint captured_point(CUstream stream);

/// What the stream, which becomes a part of that capture, is given next comes after the point.
/// Throws CUDA_ERROR_STREAM_CAPTURE_MERGE where it is in another capture, for the legacy stream
/// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and CUDA_ERROR_CAPTURED_EVENT when the capture has ended.
void join(CUstream stream, const CapturedPoint& point);

/// Invalidates a capture and throws `result`.
[[noreturn]] void invalidate(uint64_t capture, CUresult result);

} // namespace softcuda
