/* The part of the ONNX Runtime EP ABI that the reference plugin implements and calls, in
 * declarations of our own. Include ort_c_api.h before it, both within extern "C".
 *
 * Facts read from the public EP header of API level 28. OrtEpApi is a table that only grows at
 * its end; a slot that is not called here is a plain pointer. Of the structs that a plugin fills,
 * a host reads only what the level in ort_version_supported has: the level that brought a member
 * is marked where it is above 24. Enumerations are passed as int, as in ort_c_api.h.
 */
typedef struct OrtDataTransferImpl OrtDataTransferImpl;
typedef struct OrtDataType OrtDataType;
typedef struct OrtEp OrtEp;
typedef struct OrtEpFactory OrtEpFactory;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtKernelDef OrtKernelDef;
typedef struct OrtKernelDefBuilder OrtKernelDefBuilder;
typedef struct OrtKernelImpl OrtKernelImpl;
typedef struct OrtKernelRegistry OrtKernelRegistry;
typedef struct OrtLogger OrtLogger;
typedef struct OrtMemoryDevice OrtMemoryDevice;
typedef struct OrtSyncNotificationImpl OrtSyncNotificationImpl;
typedef struct OrtSyncStreamImpl OrtSyncStreamImpl;

struct OrtDataTransferImpl {
    uint32_t ort_version_supported;
    void (*Release)(OrtDataTransferImpl *self);
    bool (*CanCopy)(
        const OrtDataTransferImpl *self, const OrtMemoryDevice *source,
        const OrtMemoryDevice *destination);
    OrtStatus *(*CopyTensors)(
        OrtDataTransferImpl *self, const OrtValue **sources, OrtValue **destinations,
        OrtSyncStream **streams, size_t count);
};

struct OrtSyncNotificationImpl {
    uint32_t ort_version_supported;
    void (*Release)(OrtSyncNotificationImpl *self);
    OrtStatus *(*Activate)(OrtSyncNotificationImpl *self);
    OrtStatus *(*WaitOnDevice)(OrtSyncNotificationImpl *self, OrtSyncStream *consumer);
    OrtStatus *(*WaitOnHost)(OrtSyncNotificationImpl *self);
};

struct OrtSyncStreamImpl {
    uint32_t ort_version_supported;
    void (*Release)(OrtSyncStreamImpl *self);
    void *(*GetHandle)(OrtSyncStreamImpl *self);
    OrtStatus *(*CreateNotification)(
        OrtSyncStreamImpl *self, OrtSyncNotificationImpl **notification);
    OrtStatus *(*Flush)(OrtSyncStreamImpl *self);
    OrtStatus *(*OnSessionRunEnd)(OrtSyncStreamImpl *self);
};

struct OrtKernelImpl {
    uint32_t ort_version_supported;
    uint32_t flags; /* ORT's own; 0 at first */
    OrtStatus *(*Compute)(OrtKernelImpl *self, OrtKernelContext *context);
    void (*Release)(OrtKernelImpl *self);
    void *PrePackWeight;
    void *SetSharedPrePackedWeight;
};

typedef OrtStatus *(*OrtKernelCreateFunc)(
    void *state, const OrtKernelInfo *info, OrtKernelImpl **kernel);

struct OrtEpApi {
    OrtStatus *(*CreateEpDevice)(
        OrtEpFactory *factory, const OrtHardwareDevice *hardware, const OrtKeyValuePairs *metadata,
        const OrtKeyValuePairs *options, OrtEpDevice **device);
    void (*ReleaseEpDevice)(OrtEpDevice *handle);
    void *EpGraphSupportInfo_AddNodesToFuse;
    OrtStatus *(*EpGraphSupportInfo_AddSingleNode)(
        OrtEpGraphSupportInfo *support, const OrtNode *node);
    void *NodeComputeContext_NodeName;
    OrtStatus *(*EpDevice_AddAllocatorInfo)(OrtEpDevice *device, const OrtMemoryInfo *memory);
    const OrtMemoryDevice *(*MemoryInfo_GetMemoryDevice)(const OrtMemoryInfo *memory);
    const OrtMemoryDevice *(*Value_GetMemoryDevice)(const OrtValue *value);
    bool (*MemoryDevice_AreEqual)(const OrtMemoryDevice *one, const OrtMemoryDevice *other);
    int (*MemoryDevice_GetDeviceType)(const OrtMemoryDevice *device);
    int (*MemoryDevice_GetMemoryType)(const OrtMemoryDevice *device);
    uint32_t (*MemoryDevice_GetVendorId)(const OrtMemoryDevice *device);
    uint32_t (*MemoryDevice_GetDeviceId)(const OrtMemoryDevice *device);
    const OrtSyncStreamImpl *(*SyncStream_GetImpl)(const OrtSyncStream *stream);
    void *SyncStream_GetSyncId;
    void *GetSyncIdForLastWaitOnSyncStream;
    OrtStatus *(*CreateHardwareDevice)(
        int type, uint32_t vendor_id, uint32_t device_id, const char *vendor,
        const OrtKeyValuePairs *metadata, OrtHardwareDevice **device);
    void (*ReleaseHardwareDevice)(OrtHardwareDevice *handle);
    OrtStatus *(*CreateKernelRegistry)(OrtKernelRegistry **registry);
    void (*ReleaseKernelRegistry)(OrtKernelRegistry *handle);
    OrtStatus *(*KernelRegistry_AddKernel)(
        OrtKernelRegistry *registry, const OrtKernelDef *definition, OrtKernelCreateFunc create,
        void *state);
    OrtStatus *(*CreateKernelDefBuilder)(OrtKernelDefBuilder **builder);
    void (*ReleaseKernelDefBuilder)(OrtKernelDefBuilder *handle);
    OrtStatus *(*KernelDefBuilder_SetOperatorType)(OrtKernelDefBuilder *builder, const char *type);
    OrtStatus *(*KernelDefBuilder_SetDomain)(OrtKernelDefBuilder *builder, const char *domain);
    OrtStatus *(*KernelDefBuilder_SetSinceVersion)(
        OrtKernelDefBuilder *builder, int first, int last);
    OrtStatus *(*KernelDefBuilder_SetExecutionProvider)(
        OrtKernelDefBuilder *builder, const char *ep_name);
    OrtStatus *(*KernelDefBuilder_SetInputMemType)(
        OrtKernelDefBuilder *builder, size_t index, int memory_type);
    OrtStatus *(*KernelDefBuilder_SetOutputMemType)(
        OrtKernelDefBuilder *builder, size_t index, int memory_type);
    OrtStatus *(*KernelDefBuilder_AddTypeConstraint)(
        OrtKernelDefBuilder *builder, const char *name, const OrtDataType *const *types,
        size_t count);
    OrtStatus *(*KernelDefBuilder_AddInputOutputAliases)(
        OrtKernelDefBuilder *builder, const int *inputs, const int *outputs, size_t count);
    void *KernelDefBuilder_AddInputOutputMutableAliases;
    OrtStatus *(*KernelDefBuilder_Build)(OrtKernelDefBuilder *builder, OrtKernelDef **definition);
    void (*ReleaseKernelDef)(OrtKernelDef *handle);
    void *KernelDef_GetOperatorType;
    void *KernelDef_GetDomain;
    void *KernelDef_GetSinceVersion;
    void *KernelDef_GetExecutionProvider;
    void *KernelDef_GetInputMemType;
    void *KernelDef_GetOutputMemType;
    OrtStatus *(*GetTensorDataType)(int element_type, const OrtDataType **type);
    OrtStatus *(*EpGraphSupportInfo_LookUpKernel)(
        OrtEpGraphSupportInfo *support, const OrtNode *node, const OrtKernelDef **definition);
    void *SharedPrePackedWeightCache_StoreWeightData;
    OrtStatus *(*KernelInfo_GetEp)(const OrtKernelInfo *info, const OrtEp **ep);
};

struct OrtEp {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEp *self);
    OrtStatus *(*GetCapability)(
        OrtEp *self, const OrtGraph *graph, OrtEpGraphSupportInfo *support);
    void *Compile;
    void *ReleaseNodeComputeInfos;
    void *GetPreferredDataLayout;
    void *ShouldConvertDataLayoutForOp;
    void *SetDynamicOptions;
    OrtStatus *(*OnRunStart)(OrtEp *self, const OrtRunOptions *options);
    OrtStatus *(*OnRunEnd)(OrtEp *self, const OrtRunOptions *options, bool synchronize);
    OrtStatus *(*CreateAllocator)(
        OrtEp *self, const OrtMemoryInfo *memory, OrtAllocator **allocator);
    OrtStatus *(*CreateSyncStreamForDevice)(
        OrtEp *self, const OrtMemoryDevice *device, OrtSyncStreamImpl **stream);
    void *GetCompiledModelCompatibilityInfo;
    OrtStatus *(*GetKernelRegistry)(OrtEp *self, const OrtKernelRegistry **registry);
    OrtStatus *(*IsConcurrentRunSupported)(OrtEp *self, bool *supported);

    /* level 25 */
    OrtStatus *(*Sync)(OrtEp *self);
    void *CreateProfiler;

    /* level 26 */
    bool (*IsGraphCaptureEnabled)(const OrtEp *self);
    bool (*IsGraphCaptured)(const OrtEp *self, int graph_id);
    OrtStatus *(*ReplayGraph)(OrtEp *self, int graph_id);
    int (*GetGraphCaptureNodeAssignmentPolicy)(const OrtEp *self);
    void *GetAvailableResource;

    /* level 27 */
    OrtStatus *(*OnSessionInitializationEnd)(OrtEp *self);
    void *GetDefaultMemoryDevice;
    OrtStatus *(*ReleaseCapturedGraph)(OrtEp *self, int graph_id);
};

struct OrtEpFactory {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEpFactory *self);
    const char *(*GetVendor)(const OrtEpFactory *self);
    OrtStatus *(*GetSupportedDevices)(
        OrtEpFactory *self, const OrtHardwareDevice *const *hardware, size_t hardware_count,
        OrtEpDevice **devices, size_t capacity, size_t *count);
    OrtStatus *(*CreateEp)(
        OrtEpFactory *self, const OrtHardwareDevice *const *hardware,
        const OrtKeyValuePairs *const *metadata, size_t count, const OrtSessionOptions *options,
        const OrtLogger *logger, OrtEp **ep);
    void (*ReleaseEp)(OrtEpFactory *self, OrtEp *ep);
    uint32_t (*GetVendorId)(const OrtEpFactory *self);
    const char *(*GetVersion)(const OrtEpFactory *self);
    void *ValidateCompiledModelCompatibilityInfo;
    OrtStatus *(*CreateAllocator)(
        OrtEpFactory *self, const OrtMemoryInfo *memory, const OrtKeyValuePairs *options,
        OrtAllocator **allocator);
    void (*ReleaseAllocator)(OrtEpFactory *self, OrtAllocator *allocator);
    OrtStatus *(*CreateDataTransfer)(OrtEpFactory *self, OrtDataTransferImpl **transfer);
    bool (*IsStreamAware)(const OrtEpFactory *self);
    OrtStatus *(*CreateSyncStreamForDevice)(
        OrtEpFactory *self, const OrtMemoryDevice *device, const OrtKeyValuePairs *options,
        OrtSyncStreamImpl **stream);
    void *GetHardwareDeviceIncompatibilityDetails;
    void *CreateExternalResourceImporterForDevice;
    void *GetNumCustomOpDomains;
    void *GetCustomOpDomains;

    /* level 25 */
    void *InitGraphicsInterop;
    void *DeinitGraphicsInterop;

    /* level 28 */
    void *SelectBestModelCandidate;
};
