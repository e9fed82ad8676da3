import { readFileSync } from 'node:fs';
import { WindlassError } from '../errors.ts';
import { canonicalJson, sha256 } from '../names.ts';

/** What one exec brings into the Pod. Everything in it may be secret. */
export interface BootstrapInput {
  /** For everything the agent starts; kept on the Pod's disk. */
  readonly runtimeEnv: Readonly<Record<string, string>>;
  /** The same, kept on the memory volume only. */
  readonly authEnv: Readonly<Record<string, string>>;
  /** Variables (of either map, or of the container) whose values are hidden in captured output. */
  readonly secretNames: readonly string[];
  /** Shell script, run once per workspace and content. */
  readonly prepare?: string;
  /** The handshake's nonce. */
  readonly nonce: string;
}

let bundle: { text: string; sha256: string } | undefined;

/** The agent as one file, next to this one in `dist`, or built there when we run from the sources. */
export function loadAgentBundle(): { text: string; sha256: string } {
  if (bundle) return bundle;
  for (const path of ['./agent.mjs', '../../dist/agent/agent.mjs']) {
    const text = readIfThere(new URL(path, import.meta.url));
    if (text === undefined) continue;
    bundle = { text, sha256: sha256(text) };
    return bundle;
  }
  throw new WindlassError('config_invalid', 'The in-pod agent was not built: dist/agent/agent.mjs is missing.', {
    hint: 'Run `npm run build`.',
  });
}

function readIfThere(url: URL): string | undefined {
  try {
    return readFileSync(url, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** The content-addressed ConfigMap: the installation is in the hash, so that two of them never share one. */
export function agentConfigMap(installation: string): { name: string; data: { 'agent.mjs': string }; sha256: string } {
  const { text, sha256: digest } = loadAgentBundle();
  const name = `windlass-agent-${sha256(JSON.stringify([installation, digest])).slice(0, 40)}`;
  return { name, data: { 'agent.mjs': text }, sha256: digest };
}

/** Length line and JSON: the receiver knows its end without an end of stdin, which exec v4 cannot send. */
export function bootstrapInput(input: BootstrapInput): Buffer {
  const json = Buffer.from(canonicalJson(input));
  return Buffer.concat([Buffer.from(`${json.length}\n`), json]);
}

/** The sha256 that the Pod must print: without it an exec that seemed to succeed has proven nothing. */
export function bootstrapProof(input: BootstrapInput): string {
  return sha256(canonicalJson(input));
}
