// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The thread's last error, and the names of errors. None of the emulated devices' errors is sticky:
// each is forgotten when it has been read.
#include "emu/softcudart/runtime_api.hpp"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace softcudart {

namespace {

thread_local int last_error = CUDA_SUCCESS;

bool first_time(const char* function)
{
    static std::mutex mutex;
    static auto& named = *new std::set<std::string>;
    std::lock_guard guard(mutex);
    return named.insert(function).second;
}

struct ErrorText {
    int code;
    const char* name;
    const char* description; // where the driver has no such error
};

// By number, as older versions of the header lack some of the constants.
constexpr ErrorText kErrors[] = {
    // clang-format off
    {0, "cudaSuccess", nullptr},
    {1, "cudaErrorInvalidValue", nullptr},
    {2, "cudaErrorMemoryAllocation", nullptr},
    {3, "cudaErrorInitializationError", nullptr},
    {4, "cudaErrorCudartUnloading", nullptr},
    {5, "cudaErrorProfilerDisabled", nullptr},
    {6, "cudaErrorProfilerNotInitialized", nullptr},
    {7, "cudaErrorProfilerAlreadyStarted", nullptr},
    {8, "cudaErrorProfilerAlreadyStopped", nullptr},
    {9, "cudaErrorInvalidConfiguration", "invalid launch configuration"},
    {12, "cudaErrorInvalidPitchValue", "invalid pitch"},
    {13, "cudaErrorInvalidSymbol", "not a device variable"},
    {16, "cudaErrorInvalidHostPointer", "invalid host pointer"},
    {17, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {18, "cudaErrorInvalidTexture", "invalid texture"},
    {19, "cudaErrorInvalidTextureBinding", "texture not bound"},
    {20, "cudaErrorInvalidChannelDescriptor", "invalid channel descriptor"},
    {21, "cudaErrorInvalidMemcpyDirection", "no such kind of copy"},
    {22, "cudaErrorAddressOfConstant", "address of a constant"},
    {23, "cudaErrorTextureFetchFailed", "texture not fetched"},
    {24, "cudaErrorTextureNotBound", "texture not bound"},
    {25, "cudaErrorSynchronizationError", "synchronisation failed"},
    {26, "cudaErrorInvalidFilterSetting", "invalid texture filter"},
    {27, "cudaErrorInvalidNormSetting", "invalid normalised read of a texture"},
    {28, "cudaErrorMixedDeviceExecution", "device emulation mixed with execution"},
    {31, "cudaErrorNotYetImplemented", "not yet implemented"},
    {32, "cudaErrorMemoryValueTooLarge", "memory value too large"},
    {34, "cudaErrorStubLibrary", nullptr},
    {35, "cudaErrorInsufficientDriver", "driver older than the runtime"},
    {36, "cudaErrorCallRequiresNewerDriver", nullptr},
    {37, "cudaErrorInvalidSurface", "invalid surface"},
    {43, "cudaErrorDuplicateVariableName", "several device variables of that name"},
    {44, "cudaErrorDuplicateTextureName", "several textures of that name"},
    {45, "cudaErrorDuplicateSurfaceName", "several surfaces of that name"},
    {46, "cudaErrorDevicesUnavailable", nullptr},
    {49, "cudaErrorIncompatibleDriverContext", "context not usable by the runtime"},
    {52, "cudaErrorMissingConfiguration", "launch without a configuration"},
    {53, "cudaErrorPriorLaunchFailure", "an earlier launch failed"},
    {65, "cudaErrorLaunchMaxDepthExceeded", "launches nested too deeply"},
    {66, "cudaErrorLaunchFileScopedTex", "texture references in a nested launch"},
    {67, "cudaErrorLaunchFileScopedSurf", "surface references in a nested launch"},
    {68, "cudaErrorSyncDepthExceeded", "synchronisations nested too deeply"},
    {69, "cudaErrorLaunchPendingCountExceeded", "too many launches pending"},
    {98, "cudaErrorInvalidDeviceFunction", "not a device function"},
    {100, "cudaErrorNoDevice", nullptr},
    {101, "cudaErrorInvalidDevice", nullptr},
    {102, "cudaErrorDeviceNotLicensed", nullptr},
    {103, "cudaErrorSoftwareValidityNotEstablished", "integrity checks failed"},
    {127, "cudaErrorStartupFailure", "the runtime could not begin"},
    {200, "cudaErrorInvalidKernelImage", nullptr},
    {201, "cudaErrorDeviceUninitialized", nullptr},
    {205, "cudaErrorMapBufferObjectFailed", nullptr},
    {206, "cudaErrorUnmapBufferObjectFailed", nullptr},
    {207, "cudaErrorArrayIsMapped", nullptr},
    {208, "cudaErrorAlreadyMapped", nullptr},
    {209, "cudaErrorNoKernelImageForDevice", nullptr},
    {210, "cudaErrorAlreadyAcquired", nullptr},
    {211, "cudaErrorNotMapped", nullptr},
    {212, "cudaErrorNotMappedAsArray", nullptr},
    {213, "cudaErrorNotMappedAsPointer", nullptr},
    {214, "cudaErrorECCUncorrectable", nullptr},
    {215, "cudaErrorUnsupportedLimit", nullptr},
    {216, "cudaErrorDeviceAlreadyInUse", nullptr},
    {217, "cudaErrorPeerAccessUnsupported", nullptr},
    {218, "cudaErrorInvalidPtx", nullptr},
    {219, "cudaErrorInvalidGraphicsContext", nullptr},
    {220, "cudaErrorNvlinkUncorrectable", nullptr},
    {221, "cudaErrorJitCompilerNotFound", nullptr},
    {222, "cudaErrorUnsupportedPtxVersion", nullptr},
    {223, "cudaErrorJitCompilationDisabled", nullptr},
    {224, "cudaErrorUnsupportedExecAffinity", nullptr},
    {225, "cudaErrorUnsupportedDevSideSync", nullptr},
    {226, "cudaErrorContained", nullptr},
    {300, "cudaErrorInvalidSource", nullptr},
    {301, "cudaErrorFileNotFound", nullptr},
    {302, "cudaErrorSharedObjectSymbolNotFound", nullptr},
    {303, "cudaErrorSharedObjectInitFailed", nullptr},
    {304, "cudaErrorOperatingSystem", nullptr},
    {400, "cudaErrorInvalidResourceHandle", nullptr},
    {401, "cudaErrorIllegalState", nullptr},
    {402, "cudaErrorLossyQuery", nullptr},
    {500, "cudaErrorSymbolNotFound", nullptr},
    {600, "cudaErrorNotReady", nullptr},
    {700, "cudaErrorIllegalAddress", nullptr},
    {701, "cudaErrorLaunchOutOfResources", nullptr},
    {702, "cudaErrorLaunchTimeout", nullptr},
    {703, "cudaErrorLaunchIncompatibleTexturing", nullptr},
    {704, "cudaErrorPeerAccessAlreadyEnabled", nullptr},
    {705, "cudaErrorPeerAccessNotEnabled", nullptr},
    {708, "cudaErrorSetOnActiveProcess", nullptr},
    {709, "cudaErrorContextIsDestroyed", nullptr},
    {710, "cudaErrorAssert", nullptr},
    {711, "cudaErrorTooManyPeers", nullptr},
    {712, "cudaErrorHostMemoryAlreadyRegistered", nullptr},
    {713, "cudaErrorHostMemoryNotRegistered", nullptr},
    {714, "cudaErrorHardwareStackError", nullptr},
    {715, "cudaErrorIllegalInstruction", nullptr},
    {716, "cudaErrorMisalignedAddress", nullptr},
    {717, "cudaErrorInvalidAddressSpace", nullptr},
    {718, "cudaErrorInvalidPc", nullptr},
    {719, "cudaErrorLaunchFailure", nullptr},
    {720, "cudaErrorCooperativeLaunchTooLarge", nullptr},
    {721, "cudaErrorTensorMemoryLeak", nullptr},
    {800, "cudaErrorNotPermitted", nullptr},
    {801, "cudaErrorNotSupported", nullptr},
    {802, "cudaErrorSystemNotReady", nullptr},
    {803, "cudaErrorSystemDriverMismatch", nullptr},
    {804, "cudaErrorCompatNotSupportedOnDevice", nullptr},
    {805, "cudaErrorMpsConnectionFailed", nullptr},
    {806, "cudaErrorMpsRpcFailure", nullptr},
    {807, "cudaErrorMpsServerNotReady", nullptr},
    {808, "cudaErrorMpsMaxClientsReached", nullptr},
    {809, "cudaErrorMpsMaxConnectionsReached", nullptr},
    {810, "cudaErrorMpsClientTerminated", nullptr},
    {811, "cudaErrorCdpNotSupported", nullptr},
    {812, "cudaErrorCdpVersionMismatch", nullptr},
    {900, "cudaErrorStreamCaptureUnsupported", nullptr},
    {901, "cudaErrorStreamCaptureInvalidated", nullptr},
    {902, "cudaErrorStreamCaptureMerge", nullptr},
    {903, "cudaErrorStreamCaptureUnmatched", nullptr},
    {904, "cudaErrorStreamCaptureUnjoined", nullptr},
    {905, "cudaErrorStreamCaptureIsolation", nullptr},
    {906, "cudaErrorStreamCaptureImplicit", nullptr},
    {907, "cudaErrorCapturedEvent", nullptr},
    {908, "cudaErrorStreamCaptureWrongThread", nullptr},
    {909, "cudaErrorTimeout", nullptr},
    {910, "cudaErrorGraphExecUpdateFailure", nullptr},
    {911, "cudaErrorExternalDevice", nullptr},
    {912, "cudaErrorInvalidClusterSize", nullptr},
    {913, "cudaErrorFunctionNotLoaded", nullptr},
    {914, "cudaErrorInvalidResourceType", nullptr},
    {915, "cudaErrorInvalidResourceConfiguration", nullptr},
    {999, "cudaErrorUnknown", nullptr},
    // clang-format on
};
constexpr const char* kUnrecognized = "unrecognized error code";

const ErrorText* find_text(int code)
{
    auto text = std::find_if(std::begin(kErrors), std::end(kErrors),
                             [&](const ErrorText& e) { return e.code == code; });
    return text != std::end(kErrors) ? text : nullptr;
}

} // namespace

Answer fail(const char* function, const Error& error)
{
    if (error.code == CUDA_ERROR_NOT_SUPPORTED && !error.told && first_time(function)) {
        std::fprintf(stderr, "softcudart: %s is not supported by the emulated GPUs\n", function);
    }
    last_error = error.code;
    return {error.code};
}

} // namespace softcudart

using namespace softcudart;

cudaError_t cudaGetLastError(void)
{
    return static_cast<cudaError_t>(std::exchange(last_error, CUDA_SUCCESS));
}

cudaError_t cudaPeekAtLastError(void)
{
    return static_cast<cudaError_t>(last_error);
}

const char* cudaGetErrorName(cudaError_t code)
{
    const ErrorText* text = find_text(code);
    return text != nullptr ? text->name : kUnrecognized;
}

const char* cudaGetErrorString(cudaError_t code)
{
    const ErrorText* text = find_text(code);
    if (text == nullptr) {
        return kUnrecognized;
    }
    const char* description = text->description;
    if (description == nullptr) {
        cuGetErrorString(static_cast<CUresult>(code), &description);
    }
    return description;
}
