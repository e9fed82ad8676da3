/**
 * The fields of a core/v1 PodTemplate (Kubernetes 1.36): one type a line, `field` = text, `field:type` else; `[]` list,
 * `{}` map. A test compares it with the library's models, which are too heavy to load for reading a file.
 */
const table = `
PodTemplate = apiVersion kind metadata:ObjectMeta template:PodTemplateSpec
ObjectMeta = annotations:string{} creationTimestamp deletionGracePeriodSeconds:int deletionTimestamp finalizers:string[]
  generateName generation:int labels:string{} managedFields:any[] name namespace ownerReferences:any[] resourceVersion
  selfLink uid
PodTemplateSpec = metadata:ObjectMeta spec:PodSpec
PodSpec = activeDeadlineSeconds:int affinity:Affinity automountServiceAccountToken:bool containers:Container[]
  dnsConfig:PodDNSConfig dnsPolicy enableServiceLinks:bool ephemeralContainers:EphemeralContainer[] hostAliases:HostAlias[]
  hostIPC:bool hostNetwork:bool hostPID:bool hostUsers:bool hostname hostnameOverride imagePullSecrets:LocalObjectReference[]
  initContainers:Container[] nodeName nodeSelector:string{} os:PodOS overhead:quantity{} preemptionPolicy priority:int
  priorityClassName readinessGates:PodReadinessGate[] resourceClaims:PodResourceClaim[] resources:ResourceRequirements
  restartPolicy runtimeClassName schedulerName schedulingGates:PodSchedulingGate[] schedulingGroup:PodSchedulingGroup
  securityContext:PodSecurityContext serviceAccount serviceAccountName setHostnameAsFQDN:bool shareProcessNamespace:bool
  subdomain terminationGracePeriodSeconds:int tolerations:Toleration[] topologySpreadConstraints:TopologySpreadConstraint[]
  volumes:Volume[]
Affinity = nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity
NodeAffinity = preferredDuringSchedulingIgnoredDuringExecution:PreferredSchedulingTerm[]
  requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
PreferredSchedulingTerm = preference:NodeSelectorTerm weight:int
NodeSelectorTerm = matchExpressions:NodeSelectorRequirement[] matchFields:NodeSelectorRequirement[]
NodeSelectorRequirement = key operator values:string[]
NodeSelector = nodeSelectorTerms:NodeSelectorTerm[]
PodAffinity = preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm[]
  requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm[]
WeightedPodAffinityTerm = podAffinityTerm:PodAffinityTerm weight:int
PodAffinityTerm = labelSelector:LabelSelector matchLabelKeys:string[] mismatchLabelKeys:string[]
  namespaceSelector:LabelSelector namespaces:string[] topologyKey
LabelSelector = matchExpressions:LabelSelectorRequirement[] matchLabels:string{}
LabelSelectorRequirement = key operator values:string[]
PodAntiAffinity = preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm[]
  requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm[]
Container = args:string[] command:string[] env:EnvVar[] envFrom:EnvFromSource[] image imagePullPolicy lifecycle:Lifecycle
  livenessProbe:Probe name ports:ContainerPort[] readinessProbe:Probe resizePolicy:ContainerResizePolicy[]
  resources:ResourceRequirements restartPolicy restartPolicyRules:ContainerRestartRule[] securityContext:SecurityContext
  startupProbe:Probe stdin:bool stdinOnce:bool terminationMessagePath terminationMessagePolicy tty:bool
  volumeDevices:VolumeDevice[] volumeMounts:VolumeMount[] workingDir
EnvVar = name value valueFrom:EnvVarSource
EnvVarSource = configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector fileKeyRef:FileKeySelector
  resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector
ConfigMapKeySelector = key name optional:bool
ObjectFieldSelector = apiVersion fieldPath
FileKeySelector = key optional:bool path volumeName
ResourceFieldSelector = containerName divisor:quantity resource
SecretKeySelector = key name optional:bool
EnvFromSource = configMapRef:ConfigMapEnvSource prefix secretRef:SecretEnvSource
ConfigMapEnvSource = name optional:bool
SecretEnvSource = name optional:bool
Lifecycle = postStart:LifecycleHandler preStop:LifecycleHandler stopSignal
LifecycleHandler = exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction
ExecAction = command:string[]
HTTPGetAction = host httpHeaders:HTTPHeader[] path port:intOrString scheme
HTTPHeader = name value
SleepAction = seconds:int
TCPSocketAction = host port:intOrString
Probe = exec:ExecAction failureThreshold:int grpc:GRPCAction httpGet:HTTPGetAction initialDelaySeconds:int periodSeconds:int
  successThreshold:int tcpSocket:TCPSocketAction terminationGracePeriodSeconds:int timeoutSeconds:int
GRPCAction = port:int service
ContainerPort = containerPort:int hostIP hostPort:int name protocol
ContainerResizePolicy = resourceName restartPolicy
ResourceRequirements = claims:ResourceClaim[] limits:quantity{} requests:quantity{}
ResourceClaim = name request
ContainerRestartRule = action exitCodes:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes = operator values:int[]
SecurityContext = allowPrivilegeEscalation:bool appArmorProfile:AppArmorProfile capabilities:Capabilities privileged:bool
  procMount readOnlyRootFilesystem:bool runAsGroup:int runAsNonRoot:bool runAsUser:int seLinuxOptions:SELinuxOptions
  seccompProfile:SeccompProfile windowsOptions:WindowsSecurityContextOptions
AppArmorProfile = localhostProfile type
Capabilities = add:string[] drop:string[]
SELinuxOptions = level role type user
SeccompProfile = localhostProfile type
WindowsSecurityContextOptions = gmsaCredentialSpec gmsaCredentialSpecName hostProcess:bool runAsUserName
VolumeDevice = devicePath name
VolumeMount = mountPath mountPropagation name readOnly:bool recursiveReadOnly subPath subPathExpr
PodDNSConfig = nameservers:string[] options:PodDNSConfigOption[] searches:string[]
PodDNSConfigOption = name value
EphemeralContainer = args:string[] command:string[] env:EnvVar[] envFrom:EnvFromSource[] image imagePullPolicy
  lifecycle:Lifecycle livenessProbe:Probe name ports:ContainerPort[] readinessProbe:Probe resizePolicy:ContainerResizePolicy[]
  resources:ResourceRequirements restartPolicy restartPolicyRules:ContainerRestartRule[] securityContext:SecurityContext
  startupProbe:Probe stdin:bool stdinOnce:bool targetContainerName terminationMessagePath terminationMessagePolicy tty:bool
  volumeDevices:VolumeDevice[] volumeMounts:VolumeMount[] workingDir
HostAlias = hostnames:string[] ip
LocalObjectReference = name
PodOS = name
PodReadinessGate = conditionType
PodResourceClaim = name resourceClaimName resourceClaimTemplateName
PodSchedulingGate = name
PodSchedulingGroup = podGroupName
PodSecurityContext = appArmorProfile:AppArmorProfile fsGroup:int fsGroupChangePolicy runAsGroup:int runAsNonRoot:bool
  runAsUser:int seLinuxChangePolicy seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile supplementalGroups:int[]
  supplementalGroupsPolicy sysctls:Sysctl[] windowsOptions:WindowsSecurityContextOptions
Sysctl = name value
Toleration = effect key operator tolerationSeconds:int value
TopologySpreadConstraint = labelSelector:LabelSelector matchLabelKeys:string[] maxSkew:int minDomains:int nodeAffinityPolicy
  nodeTaintsPolicy topologyKey whenUnsatisfiable
Volume = awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource azureFile:AzureFileVolumeSource
  cephfs:CephFSVolumeSource cinder:CinderVolumeSource configMap:ConfigMapVolumeSource csi:CSIVolumeSource
  downwardAPI:DownwardAPIVolumeSource emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource fc:FCVolumeSource
  flexVolume:FlexVolumeSource flocker:FlockerVolumeSource gcePersistentDisk:GCEPersistentDiskVolumeSource
  gitRepo:GitRepoVolumeSource glusterfs:GlusterfsVolumeSource hostPath:HostPathVolumeSource image:ImageVolumeSource
  iscsi:ISCSIVolumeSource name nfs:NFSVolumeSource persistentVolumeClaim:PersistentVolumeClaimVolumeSource
  photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource projected:ProjectedVolumeSource
  quobyte:QuobyteVolumeSource rbd:RBDVolumeSource scaleIO:ScaleIOVolumeSource secret:SecretVolumeSource
  storageos:StorageOSVolumeSource vsphereVolume:VsphereVirtualDiskVolumeSource
AWSElasticBlockStoreVolumeSource = fsType partition:int readOnly:bool volumeID
AzureDiskVolumeSource = cachingMode diskName diskURI fsType kind readOnly:bool
AzureFileVolumeSource = readOnly:bool secretName shareName
CephFSVolumeSource = monitors:string[] path readOnly:bool secretFile secretRef:LocalObjectReference user
CinderVolumeSource = fsType readOnly:bool secretRef:LocalObjectReference volumeID
ConfigMapVolumeSource = defaultMode:int items:KeyToPath[] name optional:bool
KeyToPath = key mode:int path
CSIVolumeSource = driver fsType nodePublishSecretRef:LocalObjectReference readOnly:bool volumeAttributes:string{}
DownwardAPIVolumeSource = defaultMode:int items:DownwardAPIVolumeFile[]
DownwardAPIVolumeFile = fieldRef:ObjectFieldSelector mode:int path resourceFieldRef:ResourceFieldSelector
EmptyDirVolumeSource = medium sizeLimit:quantity
EphemeralVolumeSource = volumeClaimTemplate:PersistentVolumeClaimTemplate
PersistentVolumeClaimTemplate = metadata:ObjectMeta spec:PersistentVolumeClaimSpec
PersistentVolumeClaimSpec = accessModes:string[] dataSource:TypedLocalObjectReference dataSourceRef:TypedObjectReference
  resources:VolumeResourceRequirements selector:LabelSelector storageClassName volumeAttributesClassName volumeMode volumeName
TypedLocalObjectReference = apiGroup kind name
TypedObjectReference = apiGroup kind name namespace
VolumeResourceRequirements = limits:quantity{} requests:quantity{}
FCVolumeSource = fsType lun:int readOnly:bool targetWWNs:string[] wwids:string[]
FlexVolumeSource = driver fsType options:string{} readOnly:bool secretRef:LocalObjectReference
FlockerVolumeSource = datasetName datasetUUID
GCEPersistentDiskVolumeSource = fsType partition:int pdName readOnly:bool
GitRepoVolumeSource = directory repository revision
GlusterfsVolumeSource = endpoints path readOnly:bool
HostPathVolumeSource = path type
ImageVolumeSource = pullPolicy reference
ISCSIVolumeSource = chapAuthDiscovery:bool chapAuthSession:bool fsType initiatorName iqn iscsiInterface lun:int
  portals:string[] readOnly:bool secretRef:LocalObjectReference targetPortal
NFSVolumeSource = path readOnly:bool server
PersistentVolumeClaimVolumeSource = claimName readOnly:bool
PhotonPersistentDiskVolumeSource = fsType pdID
PortworxVolumeSource = fsType readOnly:bool volumeID
ProjectedVolumeSource = defaultMode:int sources:VolumeProjection[]
VolumeProjection = clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection
  downwardAPI:DownwardAPIProjection podCertificate:PodCertificateProjection secret:SecretProjection
  serviceAccountToken:ServiceAccountTokenProjection
ClusterTrustBundleProjection = labelSelector:LabelSelector name optional:bool path signerName
ConfigMapProjection = items:KeyToPath[] name optional:bool
DownwardAPIProjection = items:DownwardAPIVolumeFile[]
PodCertificateProjection = certificateChainPath credentialBundlePath keyPath keyType maxExpirationSeconds:int signerName
  userAnnotations:string{}
SecretProjection = items:KeyToPath[] name optional:bool
ServiceAccountTokenProjection = audience expirationSeconds:int path
QuobyteVolumeSource = group readOnly:bool registry tenant user volume
RBDVolumeSource = fsType image keyring monitors:string[] pool readOnly:bool secretRef:LocalObjectReference user
ScaleIOVolumeSource = fsType gateway protectionDomain readOnly:bool secretRef:LocalObjectReference sslEnabled:bool storageMode
  storagePool system volumeName
SecretVolumeSource = defaultMode:int items:KeyToPath[] optional:bool secretName
StorageOSVolumeSource = fsType readOnly:bool secretRef:LocalObjectReference volumeName volumeNamespace
VsphereVirtualDiskVolumeSource = fsType storagePolicyID storagePolicyName volumePath
`;

export type Shape = ReadonlyMap<string, string>;

/** Type name → its fields and their types. */
export const shapes: ReadonlyMap<string, Shape> = new Map(
  table
    .trim()
    .replaceAll('\n  ', ' ')
    .split('\n')
    .map((line) => {
      const [name = '', fields = ''] = line.split(' = ');
      return [
        name,
        new Map(
          fields.split(' ').map((field): [string, string] => {
            const [key = '', type = 'string'] = field.split(':');
            return [key, type];
          }),
        ),
      ];
    }),
);
