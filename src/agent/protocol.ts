/**
 * What worker and in-pod agent say to each other over loopback HTTP (design §9, reference-systems §2). The agent has no
 * dependencies, so this file holds shapes and constants only and is bundled into it.
 */
export const protocolVersion = 1;

/** The agent's only port, inside the Pod's own loopback. */
export const agentPort = 8765;

/** Environment of the agent process, written by bootstrap; removed from the environment of what it starts. */
export const agentEnv = {
  host: 'WINDLASS_AGENT_HOST',
  port: 'WINDLASS_AGENT_PORT',
  nonce: 'WINDLASS_AGENT_NONCE',
  workspace: 'WINDLASS_WORKSPACE',
  runDir: 'WINDLASS_RUN_DIR',
  optDir: 'WINDLASS_OPT_DIR',
} as const;

/** GET /health, no token. */
export interface Health {
  readonly status: 'ok';
  readonly timestamp: string;
  readonly protocol: number;
}

/** POST /auth/handshake. The same `clientKey` gets the same token again: a lost answer is harmless. */
export interface HandshakeRequest {
  readonly nonce: string;
  readonly clientKey: string;
}
export interface HandshakeResponse {
  readonly token: string;
}

/** POST /api/v1/instances (201; 409 when the id exists with other content; 200 when equal) · GET /api/v1/instances[/id]. */
export interface CreateInstanceRequest {
  readonly id: string;
  readonly workspace_path: string;
  readonly env?: Readonly<Record<string, string>>;
  /** argv started in the workspace once; its end is reported by GET. */
  readonly command?: readonly string[];
}
export interface InstanceInfo {
  readonly id: string;
  readonly port: number;
  readonly status: string;
  readonly workspace_path: string;
  readonly created_at: string;
  readonly command?: { readonly pid: number; readonly exitCode: number | null; readonly signal: string | null };
  /** Last exec, exec output or command output. Reading this does not count. */
  readonly last_activity_at?: string;
}

/**
 * GET /api/v1/instances/{id}/exec with `Connection: Upgrade`, `Upgrade: windlass-exec`: after 101 both sides send frames
 * of [1 byte channel][4 bytes big-endian length][payload]. The client's first frame is `start`.
 */
export const execUpgrade = 'windlass-exec';
export const execChannel = {
  /** client → agent: JSON ExecStart, first and once. */
  start: 0,
  /** client → agent: bytes; empty payload = end of stdin. */
  stdin: 1,
  /** agent → client: bytes. */
  stdout: 2,
  stderr: 3,
  /** agent → client, last: JSON ExecExit. */
  exit: 4,
  /** client → agent: a signal's name as text (SIGINT, SIGTERM, …). */
  signal: 5,
} as const;
/** Larger frames are refused by either side. */
export const maxFrame = 1 << 20;

export interface ExecStart {
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Relative to the workspace, or absolute. */
  readonly workdir?: string;
  /** False = stdin is closed at once. */
  readonly stdin: boolean;
  readonly timeoutMs?: number;
}
export interface ExecExit {
  /** As a shell gives it: 126 not executable, 127 not found, 128+n by signal n; 124 when the timeout ended it. */
  readonly exitCode: number;
  readonly signal: string | null;
  readonly timedOut: boolean;
}

/** Every refusal: `{error}` with 400, 401, 403, 404, 409, 413, 429 (too many wrong nonces) or 500. */
export interface AgentError {
  readonly error: string;
}

/** Where things are inside the Pod; path mode of the local cluster overrides the two folders by environment. */
export const podPaths = {
  /** emptyDir: agent, runtime env, prepare script. */
  opt: '/opt/windlass',
  /** memory emptyDir: auth env, start marker, prepared marker, HOME. */
  run: '/run/windlass',
  /** The agent ConfigMap, read-only. */
  agent: '/opt/windlass-agent',
  workspace: '/workspace',
} as const;
