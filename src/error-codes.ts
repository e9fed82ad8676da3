/**
 * What the queue does with a job that ended with this code (design §6).
 * terminal: fail for good and roll back · retryable: roll back or resume, back off, then dead letter ·
 * wait: delayed and woken, burns no attempt · yielded: no further writes by us · bug: fail for good, delete nothing ·
 * caller: refused before anything was enqueued.
 */
export type Disposition = 'terminal' | 'retryable' | 'wait' | 'yielded' | 'bug' | 'caller';

export interface CodeRow {
  readonly disposition: Disposition;
  /** Process exit code of the command line (contract §2). */
  readonly exit: 1 | 2 | 3 | 4 | 5;
  readonly http: number;
  /** For the person who asked. */
  readonly sentence: string;
  /** For the operator. */
  readonly hint: string;
  readonly retriable: boolean;
  /** Texts of Kubernetes that lead to this code; matched here and nowhere else (see `codeForKubernetesText`). */
  readonly texts?: readonly RegExp[];
}

const caller = (exit: 1 | 2 | 3 | 4 | 5, http: number, sentence: string, hint: string, retriable = false): CodeRow => ({
  disposition: 'caller',
  exit,
  http,
  sentence,
  hint,
  retriable,
});
const terminal = (sentence: string, hint: string, texts?: readonly RegExp[]): CodeRow => ({
  disposition: 'terminal',
  exit: 1,
  http: 422,
  sentence,
  hint,
  retriable: false,
  ...(texts ? { texts } : {}),
});
const retryable = (sentence: string, hint: string, texts?: readonly RegExp[]): CodeRow => ({
  disposition: 'retryable',
  exit: 1,
  http: 503,
  sentence,
  hint,
  retriable: true,
  ...(texts ? { texts } : {}),
});
const wait = (sentence: string, hint: string, texts?: readonly RegExp[]): CodeRow => ({
  disposition: 'wait',
  exit: 1,
  http: 429,
  sentence,
  hint,
  retriable: true,
  ...(texts ? { texts } : {}),
});
const yielded = (sentence: string, hint: string): CodeRow => ({
  disposition: 'yielded',
  exit: 1,
  http: 409,
  sentence,
  hint,
  retriable: true,
});
const bug = (sentence: string, hint: string): CodeRow => ({
  disposition: 'bug',
  exit: 1,
  http: 500,
  sentence,
  hint,
  retriable: false,
});

/** Every code there is, one row each. `docs/failure-codes.md` is tested against it. */
export const codeTable = {
  // Refused at the door: nothing was enqueued or written.
  config_invalid: caller(
    2,
    500,
    'The configuration is not valid.',
    'Run `windlass config check`; every problem is listed with its path.',
  ),
  payload_invalid: caller(
    2,
    422,
    'The request is not valid.',
    'See the listed fields; `windlass schema launch` prints the full shape.',
  ),
  profile_unknown: caller(
    2,
    422,
    'There is no such profile or app for you.',
    'Check the name against the configuration; a worker must have published its offer.',
  ),
  template_rejected: {
    ...caller(
      2,
      422,
      'The pod template is not allowed.',
      'Take the listed fields out of the template, or list an unsafe one in allowUnsafe of the profile.',
    ),
    disposition: 'terminal',
  },
  schema_unsupported: caller(
    2,
    422,
    'This payload version is newer than this Windlass understands.',
    'Upgrade the worker; the job stays parked until one knows the version.',
  ),
  payload_too_large: caller(
    2,
    413,
    'The request is larger than 64 KiB.',
    'Move files into the image, the repository or the prepare step.',
  ),
  image_not_allowed: {
    ...caller(2, 403, 'The image is not on the allow-list.', 'Add it to images.allow, or use an allowed one.'),
    disposition: 'terminal',
  },
  unauthorized: caller(1, 401, 'The token is missing or not valid.', 'Set WINDLASS_TOKEN to a valid token.'),
  forbidden: caller(1, 403, 'The token may not do this.', 'Use a token with the needed role and owner.'),
  instance_not_found: caller(3, 404, 'There is no such instance.', '`windlass list` shows what there is.'),
  instance_gone: caller(3, 410, 'The instance was torn down.', 'Launch it again to have a new one.'),
  instance_conflict: caller(
    1,
    409,
    'An instance with this id is live with other content.',
    'Tear it down first, or use another id.',
  ),
  instance_id_taken: caller(1, 409, 'The id belongs to another owner.', 'Use another id.'),
  rate_limited: caller(1, 429, 'Too many requests.', 'Wait as long as Retry-After says.', true),
  inventory_lost: caller(
    1,
    409,
    'Redis lost the inventory; nothing is deleted until it is recovered.',
    'Run `windlass recover --dry-run`, then `windlass recover`.',
  ),
  mass_delete_refused: caller(
    1,
    409,
    'The sweep would delete unusually many objects and stopped.',
    'Look at the report; repeat with --ack-mass-delete if it is right.',
  ),
  wait_timeout: caller(
    4,
    504,
    'Waiting ran out; the job goes on.',
    '`windlass wait` goes on waiting; `windlass explain` shows where it is.',
    true,
  ),
  redis_misconfigured: caller(
    5,
    503,
    'Redis is configured so that it may lose our data.',
    'Set maxmemory-policy noeviction; use Redis 7 or later.',
  ),
  secret_key_missing: caller(
    5,
    503,
    'A key that is needed to open stored secrets is missing.',
    'Set the variable that the configuration names; `windlass keys status` lists them.',
  ),

  // Launches that cannot succeed: failed for good, rolled back.
  snapshot_rejected: terminal(
    'The recorded recipe of this instance is no longer allowed.',
    'Policy changed since it was launched: launch it again.',
  ),
  permission_denied: terminal(
    'The cluster does not let Windlass do this.',
    'Grant the named verb; `windlass doctor` lists what is missing.',
    [/is forbidden: User .* cannot /i, /cannot (get|list|watch|create|update|patch|delete) resource/i],
  ),
  namespace_not_found: terminal(
    'The namespace does not exist on the cluster.',
    'Create the namespace, or correct clusters.<name>.namespace.',
    [/namespaces? "[^"]*" not found/i],
  ),
  namespace_terminating: terminal(
    'The namespace is being deleted.',
    'Wait until it is gone, create it again, then launch again.',
    [/because it is being terminated/i],
  ),
  policy_denied: terminal('A policy of the cluster refused the workspace.', 'The evidence names the policy.', [
    /violates PodSecurity/i,
    /admission webhook .* denied the request/i,
    /ValidatingAdmissionPolicy .* denied/i,
  ]),
  name_conflict: terminal(
    'An object of the same name exists that is not ours.',
    'Remove or rename the object that the evidence names.',
  ),
  admission_mismatch: terminal(
    'The cluster changed a part of the workspace that Windlass owns.',
    'A mutating webhook touches owned fields; exclude our objects from it.',
  ),
  storage_failed: terminal(
    'The storage for the workspace could not be provided.',
    "Check the profile's workspace.storageClass and size; the claim's own events are in the evidence.",
    [/storageclass(\.storage\.k8s\.io)? "[^"]*" not found/i],
  ),
  image_invalid: terminal('The image name is not valid.', 'Correct the image in the profile.', [
    /InvalidImageName/,
    /couldn't parse image/i,
  ]),
  image_pull_failed: terminal('The image could not be pulled.', 'Check the name, the tag and the pull secret.'),
  config_missing: terminal(
    'Something the workspace mounts or reads does not exist.',
    'The evidence names the missing ConfigMap, Secret or key.',
  ),
  crash_loop: terminal('The workspace keeps crashing at start.', '`windlass explain` shows the end of its log.'),
  exit_early: terminal(
    'The workspace ended before it was ready.',
    '`windlass explain` shows its exit code and the end of its log.',
  ),
  oom_killed: terminal('The workspace ran out of memory.', 'Raise the memory limit of the profile or the request.'),
  prepare_failed: terminal('The prepare step failed.', '`windlass explain` shows its exit code and output.'),
  agent_runtime_missing: terminal(
    'The image lacks what the agent needs to run.',
    'Use an image with Node 20 or later, or delivery init_image.',
  ),
  unrecoverable: terminal(
    'The workspace is lost and cannot be rebuilt.',
    'Launch it again; an empty_dir workspace does not outlive its Pod.',
  ),
  launch_deadline: terminal('The workspace was not ready in time.', '`windlass explain` shows what it waited for.'),

  // Worth another attempt.
  cluster_unreachable: {
    ...retryable('The cluster cannot be reached.', 'Check the kubeconfig and the network; `windlass doctor` tests it.'),
    exit: 5,
    http: 502,
  },
  redis_unavailable: {
    ...retryable('Redis cannot be reached.', 'Check redis.url and that the server runs.'),
    exit: 5,
    http: 503,
  },
  conflict: retryable('The object changed while it was being written.', 'It is tried again by itself.'),
  exec_lost: retryable(
    'The connection into the workspace broke.',
    'A launch tries again by itself. A command of yours may have run: look at what it did before you run it again.',
  ),
  forward_lost: retryable(
    'The forwarded connection to the agent broke.',
    'A launch tries again by itself. Run a command of yours again; `windlass explain` shows whether its workspace still runs.',
  ),
  handshake_failed: retryable('The agent in the workspace did not answer as it should.', 'Look at the container log.'),
  pod_disrupted: retryable(
    'The cluster removed the workspace while it started.',
    'Node pressure, preemption, or somebody deleted it: the evidence says which. A launch tries again by itself.',
  ),
  node_lost: retryable('The node of the workspace is gone.', 'The workspace starts again on another node.'),
  image_pull_throttled: retryable('The registry limits image pulls.', 'Authenticate the pulls or use a mirror.', [
    /toomanyrequests/i,
    /rate limit/i,
    /pull QPS exceeded/i,
    /unexpected status[^:]*: 5\d\d/i,
    /(500 Internal Server Error|502 Bad Gateway|503 Service Unavailable|504 Gateway Time-?out)/i,
  ]),
  webhook_unavailable: retryable('An admission webhook of the cluster does not answer.', 'The evidence names the webhook.', [
    /failed calling webhook/i,
  ]),
  unclassified: retryable('Something unexpected happened.', 'Please report it with the log.'),

  // Not now.
  quota_exceeded: wait('The namespace quota is used up; the launch waits.', 'Raise the ResourceQuota or tear instances down.', [
    /exceeded quota/i,
  ]),
  throttled: wait('The cluster asked us to slow down.', 'It goes on by itself.'),
  owner_limit: wait('The owner has as many instances as allowed.', 'Tear one down, or raise limits.perOwner.'),
  cluster_saturated: wait('As many launches are running as allowed.', 'It goes on by itself; see limits.launching.'),
  lease_held: wait('Another worker is acting on this instance.', 'It goes on by itself.'),
  removing: wait('An earlier instance of this id is still being removed.', 'It goes on by itself.'),
  recovering: wait('The inventory of the cluster is being recovered.', 'Run `windlass recover`.'),
  object_deleting: wait('An earlier object of this instance is still being deleted.', 'It goes on by itself.'),
  scheduling: wait('Waiting for a node.', "See the scheduler's words in `windlass explain`."),
  storage: wait('Waiting for storage.', "See the claim's events."),
  pulling: wait('Waiting for the image.', 'It goes on by itself.'),
  preparing: wait('The prepare step is running.', 'It goes on by itself.'),

  // Somebody else goes on.
  superseded: yielded('A newer request took over.', 'Nothing to do.'),
  lease_lost: yielded('The right to act on the instance was lost; another worker goes on.', 'Nothing to do.'),
  interrupted: yielded('The worker is shutting down; another one goes on.', 'Nothing to do.'),
  record_newer: yielded('The record was written by a newer Windlass.', 'Upgrade this worker.'),

  invariant_broken: bug(
    'Windlass stopped itself: an internal rule was broken. Nothing was deleted.',
    'Please report it with the log.',
  ),
} as const satisfies Record<string, CodeRow>;

export type ErrorCode = keyof typeof codeTable;

/** The code whose row lists a pattern that matches this text of Kubernetes, the first row winning; undefined when none does. */
export function codeForKubernetesText(text: string): ErrorCode | undefined {
  for (const [code, row] of Object.entries(codeTable) as [ErrorCode, CodeRow][]) {
    if (row.texts?.some((pattern) => pattern.test(text))) return code;
  }
  return undefined;
}
