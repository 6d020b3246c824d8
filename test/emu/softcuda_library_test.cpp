// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softcuda: libraries of kernels. To be run on NVIDIA's driver as well.
#include "softcuda_fixture.hpp"

// The latest of these functions, cuKernelGetLibrary, came with CUDA 12.5.
#if CUDA_VERSION >= 12050

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

namespace {

constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry library_add(
	.param .u64 library_add_word,
	.param .u8 library_add_unused,
	.param .align 4 .b8 library_add_amounts[8]
)
.maxntid 64, 1, 1
{
	.reg .u64 %word;
	.reg .u32 %amount;
	ld.param.u64 %word, [library_add_word];
	ld.param.u32 %amount, [library_add_amounts+4];
	cvta.to.global.u64 %word, %word;
	red.global.add.u32 [%word], %amount;
	ret;
}
.visible .entry library_nothing()
{
	ret;
}
)";

// What library_add does, for softcuda.
int add(const softcuda_launch* launch, void* const* parameters)
{
    static const auto memory = reinterpret_cast<decltype(&softcuda_kernel_memory)>(
        dlsym(RTLD_DEFAULT, "softcuda_kernel_memory"));
    CUdeviceptr word = 0;
    uint32_t amounts[2] = {};
    std::memcpy(&word, parameters[0], sizeof(word));
    std::memcpy(amounts, parameters[2], sizeof(amounts));
    softcuda_range range{};
    if (memory(launch, pointer(word), &range) != 0) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    *reinterpret_cast<uint32_t*>(range.bytes + (word - range.address)) += amounts[1];
    return 0;
}

int nothing(const softcuda_launch*, void* const*)
{
    return 0;
}

class SoftcudaLibrary : public Softcuda {
  protected:
    static bool emulated() { return dlsym(RTLD_DEFAULT, "softcuda_kernel") != nullptr; }

    static void SetUpTestSuite()
    {
        if (emulated()) {
            const auto give_function = reinterpret_cast<decltype(&softcuda_kernel)>(
                dlsym(RTLD_DEFAULT, "softcuda_kernel"));
            EXPECT_EQ(give_function("library_add", add), 0);
            EXPECT_EQ(give_function("library_nothing", nothing), 0);
        }
    }

    void SetUp() override
    {
        Softcuda::SetUp();
        ASSERT_CUDA(load(&library_, kPtx));
        add_ = kernel("library_add");
        word_ = allocate(sizeof(uint32_t));
        ASSERT_CUDA(cuMemsetD32(word_, 0, 1));
    }

    void TearDown() override
    {
        if (library_ != nullptr) {
            EXPECT_CUDA(cuLibraryUnload(library_));
        }
        Softcuda::TearDown();
    }

    static CUresult load(CUlibrary* library, const char* image)
    {
        return cuLibraryLoadData(library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
    }

    static CUresult load_file(CUlibrary* library, const std::string& name,
                              std::vector<CUlibraryOption> options = {})
    {
        std::vector<void*> values(options.size(), pointer(1));
        return cuLibraryLoadFromFile(library, name.c_str(), nullptr, nullptr, 0, options.data(),
                                     values.data(), static_cast<unsigned>(options.size()));
    }

    void unload()
    {
        EXPECT_CUDA(cuLibraryUnload(library_));
        library_ = nullptr;
    }

    CUkernel kernel(const char* name)
    {
        CUkernel found = nullptr;
        EXPECT_CUDA(cuLibraryGetKernel(&found, library_, name));
        return found;
    }

    static CUfunction as_function(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

    static CUfunction function_of(CUkernel kernel)
    {
        CUfunction found = nullptr;
        EXPECT_CUDA(cuKernelGetFunction(&found, kernel));
        return found;
    }

    CUmodule module_of_library()
    {
        CUmodule module = nullptr;
        EXPECT_CUDA(cuLibraryGetModule(&module, library_));
        return module;
    }

    // Of device 0, and current.
    static CUcontext new_context()
    {
        CUcontext context = nullptr;
#if CUDA_VERSION >= 13000
        EXPECT_CUDA(cuCtxCreate(&context, nullptr, 0, 0));
#else
        EXPECT_CUDA(cuCtxCreate(&context, 0, 0));
#endif
        return context;
    }

    static CUstream new_stream()
    {
        CUstream stream = nullptr;
        EXPECT_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        return stream;
    }

    static CUresult launch_add(CUfunction function, CUdeviceptr word, uint32_t amount,
                               CUstream stream, unsigned threads = 1)
    {
        unsigned char unused = 0;
        uint32_t amounts[2] = {0, amount};
        void* parameters[] = {&word, &unused, amounts};
        return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
    }

    // A word of the context that is current; all that was launched there is done.
    static uint32_t value(CUdeviceptr word)
    {
        uint32_t result = 0;
        EXPECT_CUDA(cuCtxSynchronize());
        EXPECT_CUDA(cuMemcpyDtoH(&result, word, sizeof(result)));
        return result;
    }

    // A node that adds 1, after the one added before.
    CUresult add_node(CUgraph graph, CUfunction function, CUkernel kernel, CUcontext context)
    {
        unsigned char unused = 0;
        uint32_t amounts[2] = {0, 1};
        void* parameters[] = {&word_, &unused, amounts};
        CUDA_KERNEL_NODE_PARAMS node{};
        node.func = function;
        node.gridDimX = node.gridDimY = node.gridDimZ = 1;
        node.blockDimX = node.blockDimY = node.blockDimZ = 1;
        node.kernelParams = parameters;
        node.kern = kernel;
        node.ctx = context;
        return cuGraphAddKernelNode(&last_node_, graph, &last_node_, last_node_ != nullptr, &node);
    }

    CUlibrary library_ = nullptr;
    CUkernel add_ = nullptr;
    CUdeviceptr word_ = 0;
    CUgraphNode last_node_ = nullptr;
};

/// A file of that content, which ends with the object.
class File {
  public:
    explicit File(const std::string& content)
    {
        std::string name = testing::TempDir() + "softcuda-library-XXXXXX";
        const int fd = mkstemp(name.data());
        EXPECT_GE(fd, 0);
        close(fd);
        name_ = name;
        std::ofstream(name_) << content;
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() { std::remove(name_.c_str()); }

    const std::string& name() const { return name_; }

  private:
    std::string name_;
};

} // namespace

TEST_F(SoftcudaLibrary, KnowsItsKernels)
{
    unsigned count = 0;
    ASSERT_CUDA(cuLibraryGetKernelCount(&count, library_));
    EXPECT_EQ(count, 2u);
    std::vector<CUkernel> kernels(3);
    ASSERT_CUDA(cuLibraryEnumerateKernels(kernels.data(), 3, library_));
    EXPECT_EQ(kernels[2], nullptr);
    kernels.pop_back();
    std::set<std::string> names;
    for (CUkernel kernel : kernels) {
        const char* name = nullptr;
        ASSERT_CUDA(cuKernelGetName(&name, kernel));
        names.insert(name);
        CUkernel by_name = nullptr;
        EXPECT_CUDA(cuLibraryGetKernel(&by_name, library_, name));
        EXPECT_EQ(by_name, kernel);
        CUlibrary library = nullptr;
        EXPECT_CUDA(cuKernelGetLibrary(&library, kernel));
        EXPECT_EQ(library, library_);
    }
    EXPECT_EQ(names, (std::set<std::string>{"library_add", "library_nothing"}));
    std::vector<CUkernel> one(2);
    ASSERT_CUDA(cuLibraryEnumerateKernels(one.data(), 1, library_));
    EXPECT_EQ(one[0], kernels[0]);
    EXPECT_EQ(one[1], nullptr);
    CUkernel missing = nullptr;
    EXPECT_EQ(cuLibraryGetKernel(&missing, library_, "library_ad"), CUDA_ERROR_NOT_FOUND);
}

TEST_F(SoftcudaLibrary, KnowsTheKernelsParameters)
{
    const size_t offsets[] = {0, 8, 12}, sizes[] = {8, 1, 8};
    CUfunction function = function_of(add_);
    for (size_t i = 0; i < 3; ++i) {
        size_t offset = 0, size = 0;
        EXPECT_CUDA(cuKernelGetParamInfo(add_, i, &offset, &size));
        EXPECT_EQ(offset, offsets[i]);
        EXPECT_EQ(size, sizes[i]);
        offset = size = 0;
        EXPECT_CUDA(cuFuncGetParamInfo(function, i, &offset, &size));
        EXPECT_EQ(offset, offsets[i]);
        EXPECT_EQ(size, sizes[i]);
    }
    size_t offset = 0, size = 0;
    EXPECT_CUDA(cuKernelGetParamInfo(add_, 1, &offset, nullptr));
    EXPECT_EQ(offset, 8u);
    EXPECT_EQ(cuKernelGetParamInfo(add_, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuFuncGetParamInfo(function, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuKernelGetParamInfo(kernel("library_nothing"), 0, &offset, &size),
              CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SoftcudaLibrary, LaunchesAKernelInPlaceOfAFunction)
{
    CUstream stream = new_stream();
    ASSERT_CUDA(launch_add(as_function(add_), word_, 3, stream));
    ASSERT_CUDA(launch_add(function_of(add_), word_, 4, stream));
    EXPECT_EQ(value(word_), 7u);
    ASSERT_CUDA(launch_add(as_function(add_), word_, 5, nullptr));
    EXPECT_EQ(value(word_), 12u);
    EXPECT_EQ(launch_add(as_function(add_), word_, 1, stream, 65), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CUDA(cuLaunchKernel(as_function(kernel("library_nothing")), 1, 1, 1, 65, 1, 1, 0, stream,
                               nullptr, nullptr));
}

TEST_F(SoftcudaLibrary, HasOneFunctionInAContext)
{
    CUfunction function = function_of(add_);
    EXPECT_EQ(function_of(add_), function);
    CUmodule module = module_of_library(), of_function = nullptr;
    EXPECT_EQ(module_of_library(), module);
    ASSERT_CUDA(cuFuncGetModule(&of_function, function));
    EXPECT_EQ(of_function, module);
    CUfunction by_name = nullptr;
    ASSERT_CUDA(cuModuleGetFunction(&by_name, module, "library_add"));
    EXPECT_EQ(by_name, function);
    const char* name = nullptr;
    ASSERT_CUDA(cuFuncGetName(&name, function));
    EXPECT_STREQ(name, "library_add");
    int most = 0;
    ASSERT_CUDA(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    EXPECT_EQ(most, 64);
}

TEST_F(SoftcudaLibrary, HasAnotherFunctionInEachContext)
{
    CUfunction function = function_of(add_);
    CUmodule module = module_of_library();
    CUcontext other = new_context();
    EXPECT_NE(function_of(add_), function);
    EXPECT_NE(module_of_library(), module);
    CUstream stream = new_stream();
    EXPECT_EQ(launch_add(function, word_, 1, stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CUDA(cuCtxDestroy(other));
    EXPECT_EQ(function_of(add_), function);
}

TEST_F(SoftcudaLibrary, LaunchesInTheStreamsContext)
{
    CUcontext other = new_context();
    CUstream stream = new_stream();
    CUdeviceptr word = allocate(sizeof(uint32_t));
    ASSERT_CUDA(cuMemsetD32(word, 0, 1));
    ASSERT_CUDA(cuCtxSetCurrent(context_));
    ASSERT_CUDA(launch_add(as_function(add_), word, 1, stream));
    ASSERT_CUDA(cuStreamSynchronize(stream));
    ASSERT_CUDA(cuCtxSetCurrent(other));
    EXPECT_EQ(value(word), 1u);
    ASSERT_CUDA(launch_add(as_function(add_), word, 2, nullptr)); // of the current context
    EXPECT_EQ(value(word), 3u);
    EXPECT_CUDA(cuCtxDestroy(other));
    ASSERT_CUDA(cuCtxSetCurrent(context_));
}

TEST_F(SoftcudaLibrary, OutlivesAContext)
{
    CUcontext other = new_context();
    function_of(add_);
    ASSERT_CUDA(cuCtxDestroy(other));
    other = new_context();
    CUstream stream = new_stream();
    CUdeviceptr word = allocate(sizeof(uint32_t));
    ASSERT_CUDA(cuMemsetD32(word, 0, 1));
    ASSERT_CUDA(launch_add(as_function(add_), word, 1, stream));
    ASSERT_CUDA(launch_add(function_of(add_), word, 1, stream));
    EXPECT_EQ(value(word), 2u);
    EXPECT_CUDA(cuCtxDestroy(other));
}

TEST_F(SoftcudaLibrary, OutlivesAResetOfTheDevice)
{
    function_of(add_);
    ASSERT_CUDA(cuDevicePrimaryCtxReset(0));
    CUfunction function = nullptr;
    EXPECT_EQ(cuKernelGetFunction(&function, add_), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_CUDA(cuCtxSetCurrent(context_));
    word_ = allocate(sizeof(uint32_t));
    ASSERT_CUDA(cuMemsetD32(word_, 0, 1));
    ASSERT_CUDA(launch_add(function_of(add_), word_, 1, nullptr));
    ASSERT_CUDA(launch_add(as_function(add_), word_, 1, nullptr));
    EXPECT_EQ(value(word_), 2u);
    ASSERT_CUDA(cuDevicePrimaryCtxRelease(0));
}

TEST_F(SoftcudaLibrary, NeedsNoContextUntilAKernelIsUsed)
{
    ASSERT_CUDA(cuCtxSetCurrent(nullptr));
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    unsigned count = 0;
    ASSERT_CUDA(load(&library, kPtx));
    ASSERT_CUDA(cuLibraryGetKernel(&kernel, library, "library_add"));
    EXPECT_CUDA(cuLibraryGetKernelCount(&count, library));
    EXPECT_EQ(count, 2u);
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_EQ(cuLibraryGetModule(&module, library), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuKernelGetFunction(&function, kernel), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(launch_add(as_function(kernel), word_, 1, nullptr), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CUDA(cuLibraryUnload(library));
    ASSERT_CUDA(cuCtxSetCurrent(context_));
}

TEST_F(SoftcudaLibrary, IsUnloadedAsAWhole)
{
    EXPECT_EQ(cuModuleUnload(module_of_library()), CUDA_ERROR_NOT_PERMITTED);
    ASSERT_CUDA(launch_add(function_of(add_), word_, 1, nullptr));
    EXPECT_EQ(value(word_), 1u);
    unload();
}

// Two of the same code share nothing.
TEST_F(SoftcudaLibrary, IsIndependentOfOthers)
{
    CUlibrary second = nullptr;
    CUkernel kernel = nullptr;
    ASSERT_CUDA(load(&second, kPtx));
    EXPECT_NE(second, library_);
    ASSERT_CUDA(cuLibraryGetKernel(&kernel, second, "library_add"));
    EXPECT_NE(kernel, add_);
    EXPECT_NE(function_of(kernel), function_of(add_));
    CUmodule module = nullptr;
    ASSERT_CUDA(cuModuleLoadData(&module, kPtx));
    unload();
    EXPECT_CUDA(launch_add(as_function(kernel), word_, 1, nullptr));
    EXPECT_CUDA(launch_add(function_of(kernel), word_, 1, nullptr));
    CUfunction function = nullptr;
    ASSERT_CUDA(cuModuleGetFunction(&function, module, "library_add"));
    EXPECT_CUDA(launch_add(function, word_, 1, nullptr));
    EXPECT_EQ(value(word_), 3u);
    EXPECT_CUDA(cuLibraryUnload(second));
    EXPECT_CUDA(cuModuleUnload(module));
}

// With NVIDIA's driver a handle that is no more may do anything.
TEST_F(SoftcudaLibrary, NoticesHandlesThatAreNoMore)
{
    if (!emulated()) {
        GTEST_SKIP() << "undefined with this driver";
    }
    CUlibrary library = library_;
    CUfunction function = function_of(add_), in_other = nullptr;
    CUmodule module = module_of_library();
    CUcontext other = new_context();
    ASSERT_CUDA(cuKernelGetFunction(&in_other, add_));
    CUstream stream = new_stream();
    ASSERT_CUDA(cuCtxSetCurrent(context_));
    unload();

    constexpr CUresult kStale = CUDA_ERROR_INVALID_HANDLE;
    unsigned count = 0;
    size_t offset = 0;
    const char* name = nullptr;
    CUkernel kernel = nullptr;
    EXPECT_EQ(cuLibraryUnload(library), kStale);
    EXPECT_EQ(cuLibraryGetKernel(&kernel, library, "library_add"), kStale);
    EXPECT_EQ(cuLibraryGetKernelCount(&count, library), kStale);
    EXPECT_EQ(cuLibraryEnumerateKernels(&kernel, 1, library), kStale);
    EXPECT_EQ(cuLibraryGetModule(&module, library), kStale);
    EXPECT_EQ(cuKernelGetFunction(&function, add_), kStale);
    EXPECT_EQ(cuKernelGetLibrary(&library, add_), kStale);
    EXPECT_EQ(cuKernelGetName(&name, add_), kStale);
    EXPECT_EQ(cuKernelGetParamInfo(add_, 0, &offset, nullptr), kStale);
    EXPECT_EQ(launch_add(as_function(add_), word_, 1, nullptr), kStale);
    EXPECT_EQ(launch_add(function, word_, 1, nullptr), kStale);
    EXPECT_EQ(launch_add(in_other, word_, 1, stream), kStale);
    EXPECT_EQ(cuFuncGetName(&name, function), kStale);
    EXPECT_EQ(cuFuncGetModule(&module, as_function(add_)), kStale);
    EXPECT_EQ(cuModuleGetFunction(&function, module, "library_add"), kStale);
    EXPECT_EQ(cuModuleUnload(module), kStale);
    EXPECT_CUDA(cuCtxDestroy(other));
}

TEST_F(SoftcudaLibrary, RefusesWhatIsMissing)
{
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    const char* name = nullptr;
    size_t size = 0;
    EXPECT_EQ(load(nullptr, kPtx), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(load(&library, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLibraryGetKernel(nullptr, library_, "library_add"), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLibraryGetKernel(&kernel, library_, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLibraryGetKernelCount(nullptr, library_), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLibraryEnumerateKernels(nullptr, 1, library_), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLibraryGetModule(nullptr, library_), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuKernelGetFunction(nullptr, add_), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuKernelGetLibrary(nullptr, add_), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuKernelGetName(nullptr, add_), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuKernelGetName(&name, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuKernelGetParamInfo(add_, 0, nullptr, &size), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuKernelGetParamInfo(nullptr, 0, &size, &size), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuFuncGetParamInfo(nullptr, 0, &size, &size), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuFuncGetName(&name, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuFuncGetName(nullptr, function_of(add_)), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SoftcudaLibrary, RefusesNullHandles)
{
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    unsigned count = 0;
    EXPECT_EQ(cuLibraryUnload(nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuLibraryGetKernel(&kernel, nullptr, "library_add"), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuLibraryGetKernelCount(&count, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuLibraryEnumerateKernels(&kernel, 1, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuLibraryGetModule(&module, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuKernelGetFunction(&function, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuKernelGetLibrary(&library, nullptr), CUDA_ERROR_INVALID_HANDLE);
}

// An image is looked at when a kernel is asked for.
TEST_F(SoftcudaLibrary, TellsLateWhatIsNoPtx)
{
    const auto expect_late = [](const char* image, CUresult defect) {
        CUlibrary library = nullptr;
        CUkernel kernel = nullptr;
        CUmodule module = nullptr;
        unsigned count = 1;
        ASSERT_CUDA(load(&library, image));
        EXPECT_CUDA(cuLibraryGetKernelCount(&count, library));
        EXPECT_EQ(count, 0u);
        EXPECT_EQ(cuLibraryGetKernel(&kernel, library, "a"), defect);
        EXPECT_EQ(cuLibraryGetModule(&module, library), defect);
        EXPECT_CUDA(cuLibraryUnload(library));
    };
    expect_late(".version 7.0\n.target sm_70\n.address_size 64\n.entry a( .param",
                CUDA_ERROR_INVALID_PTX);
    expect_late("a program", CUDA_ERROR_INVALID_IMAGE);
    expect_late("", CUDA_ERROR_INVALID_IMAGE);
    if (emulated()) { // a real one runs it
        expect_late(".version 7.0\n.target sm_70\n.entry a() { ret; }", CUDA_ERROR_NOT_SUPPORTED);
    }
}

TEST_F(SoftcudaLibrary, IsLoadedFromAFile)
{
    const File file(kPtx);
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    ASSERT_CUDA(load_file(&library, file.name()));
    ASSERT_CUDA(cuLibraryGetKernel(&kernel, library, "library_add"));
    ASSERT_CUDA(launch_add(as_function(kernel), word_, 1, nullptr));
    EXPECT_EQ(value(word_), 1u);
    EXPECT_CUDA(cuLibraryUnload(library));
    EXPECT_EQ(load_file(&library, file.name() + "-not"), CUDA_ERROR_FILE_NOT_FOUND);
    EXPECT_EQ(cuLibraryLoadFromFile(&library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0),
              CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SoftcudaLibrary, TakesOptions)
{
    CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
    void* yes = pointer(1);
    CUlibrary library = nullptr;
    ASSERT_CUDA(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, &preserved, &yes, 1));
    EXPECT_CUDA(cuLibraryUnload(library));
    if (emulated()) { // a real one reads it
        EXPECT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 1),
                  CUDA_ERROR_INVALID_VALUE);
    }
    CUlibraryOption unknown = CU_LIBRARY_NUM_OPTIONS;
    EXPECT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, &unknown, &yes, 1),
              CUDA_ERROR_INVALID_VALUE);
    const File file(kPtx);
    EXPECT_EQ(load_file(&library, file.name(), {preserved}), CUDA_ERROR_INVALID_VALUE);
}

// Also a kernel that is used for the first time.
TEST_F(SoftcudaLibrary, IsCaptured)
{
    CUstream stream = new_stream();
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ASSERT_CUDA(launch_add(as_function(add_), word_, 1, stream));
    ASSERT_CUDA(cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(value(word_), 0u);
    ASSERT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (uint32_t times = 1; times <= 2; ++times) {
        ASSERT_CUDA(cuGraphLaunch(executable, stream));
        EXPECT_EQ(value(word_), times);
    }
    EXPECT_CUDA(cuGraphExecDestroy(executable));
    EXPECT_CUDA(cuGraphDestroy(graph));
}

TEST_F(SoftcudaLibrary, IsLoadedDuringACapture)
{
    CUstream stream = new_stream();
    CUgraph graph = nullptr;
    CUlibrary library = nullptr;
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CUDA(load(&library, kPtx));
    function_of(add_);
    EXPECT_CUDA(cuStreamEndCapture(stream, &graph));
    EXPECT_CUDA(cuLibraryUnload(library));
    EXPECT_CUDA(cuGraphDestroy(graph));
}

TEST_F(SoftcudaLibrary, IsNotUnloadedDuringACapture)
{
    CUstream stream = new_stream();
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const CUresult result = cuLibraryUnload(library_);
    EXPECT_EQ(result, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (result == CUDA_SUCCESS) {
        library_ = nullptr;
    }
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(SoftcudaLibrary, HasKernelNodes)
{
    CUstream stream = new_stream();
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuGraphCreate(&graph, 0));
    EXPECT_EQ(add_node(graph, as_function(add_), nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CUDA(add_node(graph, function_of(add_), nullptr, nullptr));
    EXPECT_CUDA(add_node(graph, nullptr, add_, nullptr)); // in the current context
    EXPECT_CUDA(add_node(graph, nullptr, add_, context_));
    ASSERT_CUDA(cuCtxSetCurrent(nullptr));
    EXPECT_CUDA(add_node(graph, nullptr, add_, context_));
    CUgraphExec executable = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_ERROR_INVALID_CONTEXT);
    ASSERT_CUDA(cuCtxSetCurrent(context_));
    ASSERT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
    ASSERT_CUDA(cuGraphLaunch(executable, stream));
    EXPECT_EQ(value(word_), 4u);
    EXPECT_CUDA(cuGraphExecDestroy(executable));
    EXPECT_CUDA(cuGraphDestroy(graph));
}

TEST_F(SoftcudaLibrary, HasEntryPoints)
{
    const auto is = [](const char* name, auto* function) {
        void* found = nullptr;
        EXPECT_CUDA(find_entry_point(name, &found, CUDA_VERSION));
        EXPECT_NE(found, nullptr) << name;
        if (emulated()) {
            EXPECT_EQ(found, reinterpret_cast<void*>(function)) << name;
        }
    };
    is("cuLibraryLoadData", &cuLibraryLoadData);
    is("cuLibraryLoadFromFile", &cuLibraryLoadFromFile);
    is("cuLibraryUnload", &cuLibraryUnload);
    is("cuLibraryGetKernel", &cuLibraryGetKernel);
    is("cuLibraryGetKernelCount", &cuLibraryGetKernelCount);
    is("cuLibraryEnumerateKernels", &cuLibraryEnumerateKernels);
    is("cuLibraryGetModule", &cuLibraryGetModule);
    is("cuKernelGetFunction", &cuKernelGetFunction);
    is("cuKernelGetLibrary", &cuKernelGetLibrary);
    is("cuKernelGetName", &cuKernelGetName);
    is("cuKernelGetParamInfo", &cuKernelGetParamInfo);
    is("cuFuncGetName", &cuFuncGetName);
    is("cuFuncGetParamInfo", &cuFuncGetParamInfo);
}

#else

TEST(SoftcudaLibrary, NeedsANewerHeader)
{
    GTEST_SKIP() << "cuda.h is older than CUDA 12.5";
}

#endif
