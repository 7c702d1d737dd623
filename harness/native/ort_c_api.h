/* The part of the ONNX Runtime C API that the harness and its reference plugin call, in
 * declarations of our own.
 *
 * OrtApi is a table of function pointers that only ever grows at its end, so a slot's place is
 * all that matters of a function that is not called here: such a slot is a plain pointer. The
 * order was read from the public C header of API level 28. A core answers GetApi(level) with this
 * table when it knows that level, and with NULL when it does not; a slot may be used only if the
 * level that introduced it was asked for. Levels from 24 on are marked below.
 *
 * Enumerations are passed as int. A path is a char string, on Windows a wchar_t string; it is
 * declared as a pointer to void, so that one file serves all platforms. On 64-bit Windows the
 * API's calling convention is the default one.
 *
 * The reference plugin includes it too: it is C for cffi and valid C++ within extern "C".
 *
 * After an edit: python -m harness.native.generate
 */
typedef struct OrtAllocator OrtAllocator;
typedef struct OrtEnv OrtEnv;
typedef struct OrtEpApi OrtEpApi;
typedef struct OrtEpAssignedNode OrtEpAssignedNode;
typedef struct OrtEpAssignedSubgraph OrtEpAssignedSubgraph;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtGraph OrtGraph;
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtIoBinding OrtIoBinding;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtNode OrtNode;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtStatus OrtStatus;
typedef struct OrtSyncStream OrtSyncStream;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtValue OrtValue;
typedef struct OrtValueInfo OrtValueInfo;

/* An allocator is an object of its maker's; ORT calls it through these members. */
struct OrtAllocator {
    uint32_t version;
    void *(*Alloc)(OrtAllocator *self, size_t bytes);
    void (*Free)(OrtAllocator *self, void *buffer);
    const OrtMemoryInfo *(*Info)(const OrtAllocator *self);
    void *(*Reserve)(OrtAllocator *self, size_t bytes);
    OrtStatus *(*GetStats)(const OrtAllocator *self, OrtKeyValuePairs **statistics);
    void *(*AllocOnStream)(OrtAllocator *self, size_t bytes, OrtSyncStream *stream);
    OrtStatus *(*Shrink)(OrtAllocator *self); /* level 25 */
};

typedef struct OrtApi {
    OrtStatus *(*CreateStatus)(int code, const char *message);
    int (*GetErrorCode)(const OrtStatus *status);
    const char *(*GetErrorMessage)(const OrtStatus *status);
    OrtStatus *(*CreateEnv)(int severity, const char *log_id, OrtEnv **env);
    void *CreateEnvWithCustomLogger;
    void *EnableTelemetryEvents;
    void *DisableTelemetryEvents;
    void *CreateSession;
    OrtStatus *(*CreateSessionFromArray)(
        const OrtEnv *env, const void *model, size_t bytes, const OrtSessionOptions *options,
        OrtSession **session);
    OrtStatus *(*Run)(
        OrtSession *session, const OrtRunOptions *options, const char *const *feed_names,
        const OrtValue *const *feeds, size_t feed_count, const char *const *fetch_names,
        size_t fetch_count, OrtValue **fetches);
    OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **options);
    void *SetOptimizedModelFilePath;
    void *CloneSessionOptions;
    void *SetSessionExecutionMode;
    OrtStatus *(*EnableProfiling)(OrtSessionOptions *options, const void *path_prefix);
    void *DisableProfiling;
    void *EnableMemPattern;
    void *DisableMemPattern;
    void *EnableCpuMemArena;
    void *DisableCpuMemArena;
    void *SetSessionLogId;
    void *SetSessionLogVerbosityLevel;
    OrtStatus *(*SetSessionLogSeverityLevel)(OrtSessionOptions *options, int severity);
    OrtStatus *(*SetSessionGraphOptimizationLevel)(OrtSessionOptions *options, int level);
    OrtStatus *(*SetIntraOpNumThreads)(OrtSessionOptions *options, int threads);
    OrtStatus *(*SetInterOpNumThreads)(OrtSessionOptions *options, int threads);
    void *CreateCustomOpDomain;
    void *CustomOpDomain_Add;
    void *AddCustomOpDomain;
    void *RegisterCustomOpsLibrary;
    void *SessionGetInputCount;
    void *SessionGetOutputCount;
    void *SessionGetOverridableInitializerCount;
    void *SessionGetInputTypeInfo;
    void *SessionGetOutputTypeInfo;
    void *SessionGetOverridableInitializerTypeInfo;
    void *SessionGetInputName;
    void *SessionGetOutputName;
    void *SessionGetOverridableInitializerName;
    OrtStatus *(*CreateRunOptions)(OrtRunOptions **options);
    void *RunOptionsSetRunLogVerbosityLevel;
    void *RunOptionsSetRunLogSeverityLevel;
    void *RunOptionsSetRunTag;
    void *RunOptionsGetRunLogVerbosityLevel;
    void *RunOptionsGetRunLogSeverityLevel;
    void *RunOptionsGetRunTag;
    void *RunOptionsSetTerminate;
    void *RunOptionsUnsetTerminate;
    OrtStatus *(*CreateTensorAsOrtValue)(
        OrtAllocator *allocator, const int64_t *shape, size_t rank, int element_type,
        OrtValue **value);
    OrtStatus *(*CreateTensorWithDataAsOrtValue)(
        const OrtMemoryInfo *memory, void *data, size_t bytes, const int64_t *shape,
        size_t rank, int element_type, OrtValue **value);
    void *IsTensor;
    OrtStatus *(*GetTensorMutableData)(OrtValue *value, void **data);
    void *FillStringTensor;
    void *GetStringTensorDataLength;
    void *GetStringTensorContent;
    void *CastTypeInfoToTensorInfo;
    void *GetOnnxTypeFromTypeInfo;
    void *CreateTensorTypeAndShapeInfo;
    void *SetTensorElementType;
    void *SetDimensions;
    OrtStatus *(*GetTensorElementType)(
        const OrtTensorTypeAndShapeInfo *info, int *element_type);
    OrtStatus *(*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *info, size_t *rank);
    OrtStatus *(*GetDimensions)(
        const OrtTensorTypeAndShapeInfo *info, int64_t *shape, size_t rank);
    void *GetSymbolicDimensions;
    void *GetTensorShapeElementCount;
    OrtStatus *(*GetTensorTypeAndShape)(
        const OrtValue *value, OrtTensorTypeAndShapeInfo **info);
    void *GetTypeInfo;
    void *GetValueType;
    void *CreateMemoryInfo;
    OrtStatus *(*CreateCpuMemoryInfo)(
        int allocator_type, int memory_type, OrtMemoryInfo **memory);
    void *CompareMemoryInfo;
    OrtStatus *(*MemoryInfoGetName)(const OrtMemoryInfo *memory, const char **name);
    void *MemoryInfoGetId;
    void *MemoryInfoGetMemType;
    void *MemoryInfoGetType;
    OrtStatus *(*AllocatorAlloc)(OrtAllocator *allocator, size_t bytes, void **buffer);
    OrtStatus *(*AllocatorFree)(OrtAllocator *allocator, void *buffer);
    void *AllocatorGetInfo;
    OrtStatus *(*GetAllocatorWithDefaultOptions)(OrtAllocator **allocator);
    void *AddFreeDimensionOverride;
    void *GetValue;
    void *GetValueCount;
    void *CreateValue;
    void *CreateOpaqueValue;
    void *GetOpaqueValue;
    void *KernelInfoGetAttribute_float;
    OrtStatus *(*KernelInfoGetAttribute_int64)(
        const OrtKernelInfo *info, const char *name, int64_t *value);
    void *KernelInfoGetAttribute_string;
    OrtStatus *(*KernelContext_GetInputCount)(const OrtKernelContext *context, size_t *count);
    OrtStatus *(*KernelContext_GetOutputCount)(const OrtKernelContext *context, size_t *count);
    OrtStatus *(*KernelContext_GetInput)(
        const OrtKernelContext *context, size_t index, const OrtValue **value);
    OrtStatus *(*KernelContext_GetOutput)(
        OrtKernelContext *context, size_t index, const int64_t *shape, size_t rank,
        OrtValue **value);
    void (*ReleaseEnv)(OrtEnv *handle);
    void (*ReleaseStatus)(OrtStatus *handle);
    void (*ReleaseMemoryInfo)(OrtMemoryInfo *handle);
    void (*ReleaseSession)(OrtSession *handle);
    void (*ReleaseValue)(OrtValue *handle);
    void (*ReleaseRunOptions)(OrtRunOptions *handle);
    void *ReleaseTypeInfo;
    void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo *handle);
    void (*ReleaseSessionOptions)(OrtSessionOptions *handle);
    void *ReleaseCustomOpDomain;
    void *GetDenotationFromTypeInfo;
    void *CastTypeInfoToMapTypeInfo;
    void *CastTypeInfoToSequenceTypeInfo;
    void *GetMapKeyType;
    void *GetMapValueType;
    void *GetSequenceElementType;
    void *ReleaseMapTypeInfo;
    void *ReleaseSequenceTypeInfo;
    OrtStatus *(*SessionEndProfiling)(
        OrtSession *session, OrtAllocator *allocator, char **path);
    void *SessionGetModelMetadata;
    void *ModelMetadataGetProducerName;
    void *ModelMetadataGetGraphName;
    void *ModelMetadataGetDomain;
    void *ModelMetadataGetDescription;
    void *ModelMetadataLookupCustomMetadataMap;
    void *ModelMetadataGetVersion;
    void *ReleaseModelMetadata;
    void *CreateEnvWithGlobalThreadPools;
    void *DisablePerSessionThreads;
    void *CreateThreadingOptions;
    void *ReleaseThreadingOptions;
    void *ModelMetadataGetCustomMetadataMapKeys;
    void *AddFreeDimensionOverrideByName;
    void *GetAvailableProviders;
    void *ReleaseAvailableProviders;
    void *GetStringTensorElementLength;
    void *GetStringTensorElement;
    void *FillStringTensorElement;
    OrtStatus *(*AddSessionConfigEntry)(
        OrtSessionOptions *options, const char *key, const char *value);
    OrtStatus *(*CreateAllocator)(
        const OrtSession *session, const OrtMemoryInfo *memory, OrtAllocator **allocator);
    void (*ReleaseAllocator)(OrtAllocator *handle);
    OrtStatus *(*RunWithBinding)(
        OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding);
    OrtStatus *(*CreateIoBinding)(OrtSession *session, OrtIoBinding **binding);
    void (*ReleaseIoBinding)(OrtIoBinding *handle);
    OrtStatus *(*BindInput)(OrtIoBinding *binding, const char *name, const OrtValue *value);
    OrtStatus *(*BindOutput)(OrtIoBinding *binding, const char *name, const OrtValue *value);
    OrtStatus *(*BindOutputToDevice)(
        OrtIoBinding *binding, const char *name, const OrtMemoryInfo *memory);
    void *GetBoundOutputNames;
    void *GetBoundOutputValues;
    void *ClearBoundInputs;
    void *ClearBoundOutputs;
    void *TensorAt;
    void *CreateAndRegisterAllocator;
    void *SetLanguageProjection;
    void *SessionGetProfilingStartTimeNs;
    void *SetGlobalIntraOpNumThreads;
    void *SetGlobalInterOpNumThreads;
    void *SetGlobalSpinControl;
    void *AddInitializer;
    void *CreateEnvWithCustomLoggerAndGlobalThreadPools;
    void *SessionOptionsAppendExecutionProvider_CUDA;
    void *SessionOptionsAppendExecutionProvider_ROCM;
    void *SessionOptionsAppendExecutionProvider_OpenVINO;
    void *SetGlobalDenormalAsZero;
    void *CreateArenaCfg;
    void *ReleaseArenaCfg;
    void *ModelMetadataGetGraphDescription;
    void *SessionOptionsAppendExecutionProvider_TensorRT;
    void *SetCurrentGpuDeviceId;
    void *GetCurrentGpuDeviceId;
    void *KernelInfoGetAttributeArray_float;
    OrtStatus *(*KernelInfoGetAttributeArray_int64)(
        const OrtKernelInfo *info, const char *name, int64_t *values, size_t *count);
    void *CreateArenaCfgV2;
    OrtStatus *(*AddRunConfigEntry)(OrtRunOptions *options, const char *key, const char *value);
    void *CreatePrepackedWeightsContainer;
    void *ReleasePrepackedWeightsContainer;
    void *CreateSessionWithPrepackedWeightsContainer;
    void *CreateSessionFromArrayWithPrepackedWeightsContainer;
    void *SessionOptionsAppendExecutionProvider_TensorRT_V2;
    void *CreateTensorRTProviderOptions;
    void *UpdateTensorRTProviderOptions;
    void *GetTensorRTProviderOptionsAsString;
    void *ReleaseTensorRTProviderOptions;
    void *EnableOrtCustomOps;
    void *RegisterAllocator;
    void *UnregisterAllocator;
    void *IsSparseTensor;
    void *CreateSparseTensorAsOrtValue;
    void *FillSparseTensorCoo;
    void *FillSparseTensorCsr;
    void *FillSparseTensorBlockSparse;
    void *CreateSparseTensorWithValuesAsOrtValue;
    void *UseCooIndices;
    void *UseCsrIndices;
    void *UseBlockSparseIndices;
    void *GetSparseTensorFormat;
    void *GetSparseTensorValuesTypeAndShape;
    void *GetSparseTensorValues;
    void *GetSparseTensorIndicesTypeShape;
    void *GetSparseTensorIndices;
    void *HasValue;
    OrtStatus *(*KernelContext_GetGPUComputeStream)(
        const OrtKernelContext *context, void **handle);
    OrtStatus *(*GetTensorMemoryInfo)(const OrtValue *value, const OrtMemoryInfo **memory);
    void *GetExecutionProviderApi;
    void *SessionOptionsSetCustomCreateThreadFn;
    void *SessionOptionsSetCustomThreadCreationOptions;
    void *SessionOptionsSetCustomJoinThreadFn;
    void *SetGlobalCustomCreateThreadFn;
    void *SetGlobalCustomThreadCreationOptions;
    void *SetGlobalCustomJoinThreadFn;
    OrtStatus *(*SynchronizeBoundInputs)(OrtIoBinding *binding);
    OrtStatus *(*SynchronizeBoundOutputs)(OrtIoBinding *binding);
    void *SessionOptionsAppendExecutionProvider_CUDA_V2;
    void *CreateCUDAProviderOptions;
    void *UpdateCUDAProviderOptions;
    void *GetCUDAProviderOptionsAsString;
    void *ReleaseCUDAProviderOptions;
    void *SessionOptionsAppendExecutionProvider_MIGraphX;
    void *AddExternalInitializers;
    void *CreateOpAttr;
    void *ReleaseOpAttr;
    void *CreateOp;
    void *InvokeOp;
    void *ReleaseOp;
    void *SessionOptionsAppendExecutionProvider;
    void *CopyKernelInfo;
    void *ReleaseKernelInfo;
    void *GetTrainingApi;
    void *SessionOptionsAppendExecutionProvider_CANN;
    void *CreateCANNProviderOptions;
    void *UpdateCANNProviderOptions;
    void *GetCANNProviderOptionsAsString;
    void *ReleaseCANNProviderOptions;
    void (*MemoryInfoGetDeviceType)(const OrtMemoryInfo *memory, int *device_type);
    void *UpdateEnvWithCustomLogLevel;
    void *SetGlobalIntraOpThreadAffinity;
    void *RegisterCustomOpsLibrary_V2;
    void *RegisterCustomOpsUsingFunction;
    void *KernelInfo_GetInputCount;
    OrtStatus *(*KernelInfo_GetOutputCount)(const OrtKernelInfo *info, size_t *count);
    void *KernelInfo_GetInputName;
    OrtStatus *(*KernelInfo_GetOutputName)(
        const OrtKernelInfo *info, size_t index, char *name, size_t *size);
    void *KernelInfo_GetInputTypeInfo;
    void *KernelInfo_GetOutputTypeInfo;
    void *KernelInfoGetAttribute_tensor;
    void *HasSessionConfigEntry;
    void *GetSessionConfigEntry;
    void *SessionOptionsAppendExecutionProvider_Dnnl;
    void *CreateDnnlProviderOptions;
    void *UpdateDnnlProviderOptions;
    void *GetDnnlProviderOptionsAsString;
    void *ReleaseDnnlProviderOptions;
    OrtStatus *(*KernelInfo_GetNodeName)(const OrtKernelInfo *info, char *name, size_t *size);
    void *KernelInfo_GetLogger;
    void *KernelContext_GetLogger;
    void *Logger_LogMessage;
    void *Logger_GetLoggingSeverityLevel;
    void *KernelInfoGetConstantInput_tensor;
    void *CastTypeInfoToOptionalTypeInfo;
    void *GetOptionalContainedTypeInfo;
    void *GetResizedStringTensorElementBuffer;
    void *KernelContext_GetAllocator;
    void *GetBuildInfoString;
    void *CreateROCMProviderOptions;
    void *UpdateROCMProviderOptions;
    void *GetROCMProviderOptionsAsString;
    void *ReleaseROCMProviderOptions;
    void *CreateAndRegisterAllocatorV2;
    void *RunAsync;
    void *UpdateTensorRTProviderOptionsWithValue;
    void *GetTensorRTProviderOptionsByName;
    void *UpdateCUDAProviderOptionsWithValue;
    void *GetCUDAProviderOptionsByName;
    void *KernelContext_GetResource;
    void *SetUserLoggingFunction;
    void *ShapeInferContext_GetInputCount;
    void *ShapeInferContext_GetInputTypeShape;
    void *ShapeInferContext_GetAttribute;
    void *ShapeInferContext_SetOutputTypeShape;
    void *SetSymbolicDimensions;
    OrtStatus *(*ReadOpAttr)(
        const OrtOpAttr *attribute, int type, void *data, size_t room, size_t *bytes);
    void *SetDeterministicCompute;
    void *KernelContext_ParallelFor;
    void *SessionOptionsAppendExecutionProvider_OpenVINO_V2;
    void *SessionOptionsAppendExecutionProvider_VitisAI;
    void *KernelContext_GetScratchBuffer;
    void *KernelInfoGetAllocator;
    void *AddExternalInitializersFromFilesInMemory;
    void *CreateLoraAdapter;
    void *CreateLoraAdapterFromArray;
    void *ReleaseLoraAdapter;
    void *RunOptionsAddActiveLoraAdapter;
    void *SetEpDynamicOptions;
    void *ReleaseValueInfo;
    void *ReleaseNode;
    void *ReleaseGraph;
    void *ReleaseModel;
    OrtStatus *(*GetValueInfoName)(const OrtValueInfo *info, const char **name);
    void *GetValueInfoTypeInfo;
    void *GetModelEditorApi;
    void *CreateTensorWithDataAndDeleterAsOrtValue;
    void *SessionOptionsSetLoadCancellationFlag;
    void *GetCompileApi;
    void (*CreateKeyValuePairs)(OrtKeyValuePairs **pairs);
    void (*AddKeyValuePair)(OrtKeyValuePairs *pairs, const char *key, const char *value);
    const char *(*GetKeyValue)(const OrtKeyValuePairs *pairs, const char *key);
    void (*GetKeyValuePairs)(
        const OrtKeyValuePairs *pairs, const char *const **keys, const char *const **values,
        size_t *count);
    void *RemoveKeyValuePair;
    void (*ReleaseKeyValuePairs)(OrtKeyValuePairs *handle);
    OrtStatus *(*RegisterExecutionProviderLibrary)(
        OrtEnv *env, const char *registration_name, const void *path);
    OrtStatus *(*UnregisterExecutionProviderLibrary)(
        OrtEnv *env, const char *registration_name);
    OrtStatus *(*GetEpDevices)(
        const OrtEnv *env, const OrtEpDevice *const **ep_devices, size_t *count);
    OrtStatus *(*SessionOptionsAppendExecutionProvider_V2)(
        OrtSessionOptions *options, OrtEnv *env, const OrtEpDevice *const *ep_devices,
        size_t device_count, const char *const *keys, const char *const *values,
        size_t option_count);
    void *SessionOptionsSetEpSelectionPolicy;
    void *SessionOptionsSetEpSelectionPolicyDelegate;
    int (*HardwareDevice_Type)(const OrtHardwareDevice *device);
    void *HardwareDevice_VendorId;
    const char *(*HardwareDevice_Vendor)(const OrtHardwareDevice *device);
    void *HardwareDevice_DeviceId;
    void *HardwareDevice_Metadata;
    const char *(*EpDevice_EpName)(const OrtEpDevice *ep_device);
    const char *(*EpDevice_EpVendor)(const OrtEpDevice *ep_device);
    const OrtKeyValuePairs *(*EpDevice_EpMetadata)(const OrtEpDevice *ep_device);
    void *EpDevice_EpOptions;
    const OrtHardwareDevice *(*EpDevice_Device)(const OrtEpDevice *ep_device);
    const OrtEpApi *(*GetEpApi)(void);
    OrtStatus *(*GetTensorSizeInBytes)(const OrtValue *value, size_t *bytes);
    OrtStatus *(*AllocatorGetStats)(const OrtAllocator *allocator, OrtKeyValuePairs **statistics);
    OrtStatus *(*CreateMemoryInfo_V2)(
        const char *name, int device_type, uint32_t vendor_id, int32_t device_id,
        int memory_type, size_t alignment, int allocator_type, OrtMemoryInfo **memory);
    void *MemoryInfoGetDeviceMemType;
    void *MemoryInfoGetVendorId;
    void *ValueInfo_GetValueProducer;
    void *ValueInfo_GetValueNumConsumers;
    void *ValueInfo_GetValueConsumers;
    void *ValueInfo_GetInitializerValue;
    void *ValueInfo_GetExternalInitializerInfo;
    void *ValueInfo_IsRequiredGraphInput;
    void *ValueInfo_IsOptionalGraphInput;
    void *ValueInfo_IsGraphOutput;
    void *ValueInfo_IsConstantInitializer;
    void *ValueInfo_IsFromOuterScope;
    void *Graph_GetName;
    void *Graph_GetModelPath;
    void *Graph_GetOnnxIRVersion;
    void *Graph_GetNumOperatorSets;
    void *Graph_GetOperatorSets;
    void *Graph_GetNumInputs;
    void *Graph_GetInputs;
    OrtStatus *(*Graph_GetNumOutputs)(const OrtGraph *graph, size_t *count);
    OrtStatus *(*Graph_GetOutputs)(
        const OrtGraph *graph, const OrtValueInfo **outputs, size_t count);
    void *Graph_GetNumInitializers;
    void *Graph_GetInitializers;
    OrtStatus *(*Graph_GetNumNodes)(const OrtGraph *graph, size_t *count);
    OrtStatus *(*Graph_GetNodes)(const OrtGraph *graph, const OrtNode **nodes, size_t count);
    OrtStatus *(*Graph_GetParentNode)(const OrtGraph *graph, const OrtNode **node);
    void *Graph_GetGraphView;
    void *Node_GetId;
    OrtStatus *(*Node_GetName)(const OrtNode *node, const char **name);
    OrtStatus *(*Node_GetOperatorType)(const OrtNode *node, const char **type);
    void *Node_GetDomain;
    void *Node_GetSinceVersion;
    OrtStatus *(*Node_GetNumInputs)(const OrtNode *node, size_t *count);
    void *Node_GetInputs;
    void *Node_GetNumOutputs;
    void *Node_GetOutputs;
    void *Node_GetNumImplicitInputs;
    void *Node_GetImplicitInputs;
    void *Node_GetNumAttributes;
    void *Node_GetAttributes;
    OrtStatus *(*Node_GetAttributeByName)(
        const OrtNode *node, const char *name, const OrtOpAttr **attribute);
    void *OpAttr_GetTensorAttributeAsOrtValue;
    void *OpAttr_GetType;
    void *OpAttr_GetName;
    OrtStatus *(*Node_GetNumSubgraphs)(const OrtNode *node, size_t *count);
    void *Node_GetSubgraphs;
    void *Node_GetGraph;
    void *Node_GetEpName;
    void *ReleaseExternalInitializerInfo;
    void *ExternalInitializerInfo_GetFilePath;
    void *ExternalInitializerInfo_GetFileOffset;
    void *ExternalInitializerInfo_GetByteSize;
    const char *(*GetRunConfigEntry)(const OrtRunOptions *options, const char *key);
    const OrtMemoryInfo *(*EpDevice_MemoryInfo)(const OrtEpDevice *ep_device, int memory_type);
    OrtStatus *(*CreateSharedAllocator)(
        OrtEnv *env, const OrtEpDevice *ep_device, int memory_type, int allocator_type,
        const OrtKeyValuePairs *options, OrtAllocator **allocator);
    OrtStatus *(*GetSharedAllocator)(
        OrtEnv *env, const OrtMemoryInfo *memory, OrtAllocator **allocator);
    OrtStatus *(*ReleaseSharedAllocator)(
        OrtEnv *env, const OrtEpDevice *ep_device, int memory_type);
    void *GetTensorData;
    OrtStatus *(*GetSessionOptionsConfigEntries)(
        const OrtSessionOptions *options, OrtKeyValuePairs **entries);
    void *SessionGetMemoryInfoForInputs;
    void *SessionGetMemoryInfoForOutputs;
    void *SessionGetEpDeviceForInputs;
    OrtStatus *(*CreateSyncStreamForEpDevice)(
        const OrtEpDevice *ep_device, const OrtKeyValuePairs *options, OrtSyncStream **stream);
    void *SyncStream_GetHandle;
    void (*ReleaseSyncStream)(OrtSyncStream *handle);
    OrtStatus *(*CopyTensors)(
        const OrtEnv *env, const OrtValue *const *sources, OrtValue *const *destinations,
        OrtSyncStream *stream, size_t count);
    void *Graph_GetModelMetadata;
    void *GetModelCompatibilityForEpDevices;
    void *CreateExternalInitializerInfo;
    void *TensorTypeAndShape_HasShape;

    /* level 24, from slot 391 */
    void *KernelInfo_GetConfigEntries;
    void *KernelInfo_GetOperatorDomain;
    void *KernelInfo_GetOperatorType;
    void *KernelInfo_GetOperatorSinceVersion;
    void *GetInteropApi;
    void *SessionGetEpDeviceForOutputs;
    void *GetNumHardwareDevices;
    void *GetHardwareDevices;
    void *GetHardwareDeviceEpIncompatibilityDetails;
    void *DeviceEpIncompatibilityDetails_GetReasonsBitmask;
    void *DeviceEpIncompatibilityDetails_GetNotes;
    void *DeviceEpIncompatibilityDetails_GetErrorCode;
    void *ReleaseDeviceEpIncompatibilityDetails;
    void *GetCompatibilityInfoFromModel;
    void *GetCompatibilityInfoFromModelBytes;
    void *CreateEnvWithOptions;
    OrtStatus *(*Session_GetEpGraphAssignmentInfo)(
        const OrtSession *session, const OrtEpAssignedSubgraph *const **subgraphs,
        size_t *count);
    OrtStatus *(*EpAssignedSubgraph_GetEpName)(
        const OrtEpAssignedSubgraph *subgraph, const char **name);
    OrtStatus *(*EpAssignedSubgraph_GetNodes)(
        const OrtEpAssignedSubgraph *subgraph, const OrtEpAssignedNode *const **nodes,
        size_t *count);
    OrtStatus *(*EpAssignedNode_GetName)(const OrtEpAssignedNode *node, const char **name);
    void *EpAssignedNode_GetDomain;
    OrtStatus *(*EpAssignedNode_GetOperatorType)(
        const OrtEpAssignedNode *node, const char **type);
    void (*RunOptionsSetSyncStream)(OrtRunOptions *options, OrtSyncStream *stream);
    void *GetTensorElementTypeAndShapeDataReference;

    /* level 25, from slot 415 */
    void *RunOptionsEnableProfiling;
    void *RunOptionsDisableProfiling;
    void *KernelInfoGetAttributeArray_string;
    void *SetPerSessionThreadPoolCallbacks;

    /* level 27, from slot 419 */
    void *GetMemPatternEnabled;
    void *GetSessionExecutionMode;
    OrtStatus *(*SessionReleaseCapturedGraph)(OrtSession *session, int graph_annotation_id);

    /* level 28, from slot 422 */
    void *GetExperimentalFunction;
    void *KernelContext_GetSyncStream;
} OrtApi;

typedef struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t level);
    const char *(*GetVersionString)(void);
} OrtApiBase;

const OrtApiBase *OrtGetApiBase(void);
